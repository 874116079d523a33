"""What runs have shown, kept in one file, so that a run of some clients replaces only their rows."""

from __future__ import annotations

import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from tests.compat.matrix.programs import Report
from tests.compat.matrix.toolchains import ROOT

PATH: Final = ROOT / "tests/compat/results/matrix.json"


@dataclass(slots=True)
class Saved:
    client: str
    against: str
    """`1` or `3` logstores, or `kafka`: one broker of Apache Kafka, which the same programs are compared with."""
    commit: str
    day: str
    report: Report


def load(path: Path = PATH) -> list[Saved]:
    return msgspec.json.decode(path.read_bytes(), type=list[Saved]) if path.exists() else []


def save(news: list[Saved], order: list[str], path: Path = PATH) -> list[Saved]:
    """Rows of the same client and cluster are replaced; those of clients that are no more are dropped."""
    by_key = {(each.client, each.against): each for each in [*load(path), *news] if each.client in order}
    kept = sorted(by_key.values(), key=lambda each: (order.index(each.client), each.against))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode([asdict(each) for each in kept]), indent=1) + b"\n")
    return kept


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def commit() -> str:
    """Return the last commit that changed what clusters run; a plus where files of it differ.

    Commits of tests and pages leave it as it is, so that a row names the same program after they are rebased.
    """
    program = ("barnabas", "cli", "services", "protos")
    changed = _git("status", "--porcelain", "--untracked-files=no", *program)
    return _git("log", "-1", "--format=%h", "--", *program) + ("+" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
