"""The last run of each suite, kept in one file, so that a run of some suites replaces only theirs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

PATH: Final = Path(__file__).parent / "results.json"


@dataclass(slots=True, frozen=True)
class Saved:
    suite: str
    commit: str
    """With a plus where product files of the tree differed from it."""
    day: str
    build: str
    seconds: int
    passed: int
    failed: int
    skipped: int
    unexpected: list[str]
    """A line for each result that its table does not expect."""


def load(path: Path = PATH) -> list[Saved]:
    return msgspec.json.decode(path.read_bytes(), type=list[Saved]) if path.exists() else []


def save(new: Saved, order: list[str], path: Path = PATH) -> list[Saved]:
    """Replace the run of the same suite, and drop those of suites that are no more."""
    by_suite = {each.suite: each for each in [*load(path), new] if each.suite in order}
    kept = sorted(by_suite.values(), key=lambda each: order.index(each.suite))
    path.write_bytes(msgspec.json.format(msgspec.json.encode([asdict(each) for each in kept]), indent=1) + b"\n")
    return kept
