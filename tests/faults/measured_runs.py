"""What runs that measure how long nothing is acknowledged have in common: their load, and how they are saved."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.faults.checker import Verdict
from tests.faults.workload import Mix

PARTITIONS: Final = 6
MIX: Final = Mix(idempotent=3, acks_all=0, acks_1=0, readers=2, life_seconds=0, sends_per_second=600)
RECORDS_BETWEEN: Final = 600
"""Acknowledged after a fault and before the next one."""
REPAIR_SECONDS_MAX: Final = 60.0


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is saved beside the page; subclasses say what was measured."""

    command: str
    commit: str
    cores: int
    load: float
    acknowledged: int
    lost: int
    duplicated: int
    reordered: int

    @property
    def where(self) -> str:
        """The sentence by which its page begins."""
        return (
            f"`{self.command}` at {self.commit}, on {self.cores} cores; the machine's load over the minute before the "
            f"run: {self.load}."
        )

    def save(self, page: str, path: Path) -> None:
        """The page there, and this as JSON beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page)
        path.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")


def fields_of_run(command: str, load: float, verdict: Verdict) -> dict[str, Any]:
    """Return the fields that every measured run has, of one that has ended. `load` is the machine's over the minute
    before the run.
    """
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    run = MeasuredRun(
        command=command,
        commit=commit.strip() or "no commit",
        cores=os.cpu_count() or 0,
        load=round(load, 1),
        acknowledged=verdict.figures.acknowledged,
        lost=verdict.lost,
        duplicated=verdict.duplicated,
        reordered=verdict.reordered,
    )
    return msgspec.structs.asdict(run)


def say(line: str) -> None:
    print(line, flush=True)
