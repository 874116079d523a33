"""The inputs that are kept: one text file per target, a line of hexadecimal digits each, shortest first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Final

from tests.fuzz.meter import steps_of
from tests.fuzz.target import Target

HERE: Final = Path(__file__).parent / "corpus"
BYTES_MAX: Final = 140_000
"""Of one target's file, so that all of them stay below 2 MB."""


def path_of(name: str) -> Path:
    return HERE / f"{name}.txt"


def kept_inputs(name: str) -> list[bytes]:
    path = path_of(name)
    return [bytes.fromhex(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(target: Target, inputs: Iterable[bytes]) -> int:
    """Rewrite the corpus, of the shortest inputs those that reach something new, as far as there is room."""
    reached: set[tuple[CodeType, int, int]] = set()
    lines: list[str] = []
    room = BYTES_MAX
    for data in sorted(set(inputs), key=lambda each: (len(each), each)):
        steps = steps_of(target, data)
        room -= 0 if steps <= reached else 2 * len(data) + 1
        if room < 0:
            break
        if not steps <= reached:
            reached |= steps
            lines.append(f"{data.hex()}\n")
    HERE.mkdir(exist_ok=True)
    path_of(target.name).write_text("".join(lines))
    return len(lines)
