"""What is kept of a cell that was played: a row of a page, and a JSON object beside it."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.faults.checker.verdict import Apart
from tests.faults.grid import Outcome


class Run(msgspec.Struct, frozen=True):
    """In which cells were played."""

    command: str
    commit: str
    date: str
    machine: str


class Row(msgspec.Struct, kw_only=True):
    cell: str
    run: Run
    passed: bool
    skipped: str
    failures: list[str]
    seconds: float
    failover_ms: int
    goal_ms: int | None
    return_ms: int
    settle_seconds: float
    injections: list[str]
    load: float | None = None
    """Of the machine, over the last minute of the cell."""
    counts: dict[str, int] = {}
    """By kind; empty, as all that follows, where there was no history to check."""
    apart: dict[str, int] = {}
    incomplete: list[str] = []
    operations: int = 0
    operations_per_second: int = 0
    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    indeterminate: int = 0
    records_read: int = 0
    errors: dict[str, int] = {}

    @property
    def meets_goal(self) -> bool:
        return self.goal_ms is None or self.failover_ms <= self.goal_ms

    @property
    def failover(self) -> str:
        """With the goal, if there is one."""
        if self.goal_ms is None:
            return f"{self.failover_ms} ms"
        return f"{self.failover_ms} ms ({'' if self.meets_goal else 'over '}{self.goal_ms})"

    @property
    def anomalies(self) -> str:
        found = [f"{kind} {count}" for kind, count in self.counts.items() if count]
        return ", ".join([*found, *(["incomplete"] if self.incomplete else [])]) or "none"

    @property
    def at_cut_off_leader(self) -> int:
        return self.apart.get(Apart.AT_CUT_OFF_LEADER, 0)


def row_of(outcome: Outcome, run: Run) -> Row:
    """Of a cell that has just been played."""
    row = Row(
        cell=outcome.cell.name,
        run=run,
        passed=outcome.passed,
        skipped=outcome.skipped,
        failures=outcome.failures,
        seconds=round(outcome.seconds, 1),
        failover_ms=round(outcome.failover_ms),
        goal_ms=outcome.cell.goal_ms,
        return_ms=round(outcome.return_ms),
        settle_seconds=round(outcome.settle_seconds, 1),
        injections=[injection.what for injection in outcome.injections],
        load=round(os.getloadavg()[0], 1),
    )
    verdict = outcome.verdict
    if verdict is not None:
        figures = verdict.figures
        row.counts = {str(kind): count for kind, count in verdict.counts.items()}
        row.apart = {str(apart): count for apart, count in verdict.apart.items()}
        row.incomplete = verdict.incomplete
        row.operations = figures.operations
        row.operations_per_second = round(figures.operations_per_second)
        row.sent, row.acknowledged, row.refused = figures.sent, figures.acknowledged, figures.refused
        row.indeterminate, row.records_read = figures.indeterminate, figures.records_read
        row.errors = dict(figures.errors.most_common())
    return row


def this_run(module: str = "tests.faults") -> Run:
    """Of the program that runs now, which is started as `python -m <module>`."""
    return Run(
        command=f"python -m {module} {shlex.join(without_directories(sys.argv[1:]))}".strip(),
        commit=_commit() or "an unknown commit",
        date=time.strftime("%Y-%m-%d"),
        machine=f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}",
    )


def _commit() -> str:
    """With `-dirty` where anything but saved results differs from it; empty outside of a repository."""
    root = Path(__file__).parents[2]
    describe = ["git", "describe", "--always", "--abbrev=12"]
    done = subprocess.run(describe, cwd=root, capture_output=True, text=True, check=False)
    differs = ["git", "diff", "--quiet", "HEAD", "--", ".", ":!tests/faults/results"]
    is_dirty = subprocess.run(differs, cwd=root, capture_output=True, check=False).returncode == 1
    return done.stdout.strip() + ("-dirty" if is_dirty else "")


def without_directories(arguments: Iterable[str]) -> list[str]:
    """Return the arguments of a command as they are saved: of an absolute path the name alone."""
    return [Path(each).name if each.startswith("/") else each for each in arguments]
