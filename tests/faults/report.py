"""What a run says: a line per cell as it goes, the two last lines, and the table that is saved."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.faults.checker.verdict import Kind
from tests.faults.grid import Outcome

RESULTS: Final = Path(__file__).with_name("results")
_IN_LAST_LINE: Final = (Kind.LOST, Kind.DUPLICATED, Kind.REORDERED)
_HEADER: Final = (
    "| cell | operations/s | acknowledged | unknown | anomalies | failover (goal) | return ms | settled s | faults |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def progress_line(outcome: Outcome) -> str:
    """One cell."""
    if outcome.skipped:
        return f"skip {outcome.cell.name}: {outcome.skipped}"
    parts = [f"{'ok  ' if outcome.passed else 'FAIL'} {outcome.cell.name} {outcome.seconds:.0f} s"]
    if outcome.verdict is not None:
        figures = outcome.verdict.figures
        parts += [
            f"{figures.operations} operations ({figures.operations_per_second:.0f}/s)",
            f"{figures.acknowledged} acknowledged",
            f"failover {_milliseconds(outcome)}",
            f"return {outcome.return_ms:.0f} ms",
            f"settled {outcome.settle_seconds:.1f} s",
            f"{len(outcome.injections)}x",
            _anomalies(outcome),
        ]
    lines = [", ".join(parts)]
    lines += [f"     {failure}" for failure in outcome.failures]
    if outcome.verdict is not None and not outcome.verdict.is_clean:
        lines += [f"     {line}" for line in str(outcome.verdict).splitlines()]
    return "\n".join(lines)


def last_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """The two that a run ends with."""
    played = [outcome for outcome in outcomes if not outcome.skipped]
    others = [f"{kind} {_count(played, kind)}" for kind in Kind if kind not in _IN_LAST_LINE]
    failed = [outcome.cell.name for outcome in played if not outcome.passed]
    missed = [outcome.cell.name for outcome in played if not outcome.meets_goal]
    notes = [
        f"skipped {len(outcomes) - len(played)}",
        f"failed {len(failed)}{_names(failed)}",
        f"slower than the goal {len(missed)}{_names(missed)}",
    ]
    counts = ", ".join(f"{kind} {_count(played, kind)}" for kind in _IN_LAST_LINE)
    return [", ".join([*others, *notes]), f"{len(played)} cells, {counts}"]


def save(outcomes: Sequence[Outcome], name: str) -> Path:
    """The table as Markdown, and everything as JSON beside it."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.md"
    path.write_text(_markdown(outcomes))
    path.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(_facts(outcomes))) + b"\n")
    return path


def _markdown(outcomes: Sequence[Outcome]) -> str:
    facts = _circumstances()
    lines = [
        "# Real faults on real processes",
        "",
        f"`{facts['command']}` at {facts['commit']} on {facts['date']}: {facts['machine']}.",
        "",
        "Failover: the longest time that any partition waited for an acknowledged write (idempotent or acks=all) from",
        "the fault on. Return: the same from the moment when the fault was taken back. Settled: from then until every",
        "process knew every other one and every ISR was full again. See [faults.md](../../../docs/faults.md).",
        "",
        _HEADER,
        *(_row(outcome) for outcome in outcomes),
        "",
        "```",
        *last_lines(outcomes),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> str:
    name = outcome.cell.name
    if outcome.skipped:
        return f"| {name} | skipped: {outcome.skipped} | | | | | | | |"
    if outcome.verdict is None:
        return f"| {name} | failed: {'; '.join(outcome.failures)} | | | | | | | |"
    figures = outcome.verdict.figures
    cells = [
        name,
        f"{figures.operations_per_second:.0f}",
        str(figures.acknowledged),
        str(figures.indeterminate),
        _anomalies(outcome) + "".join(f"; {failure}" for failure in outcome.failures),
        _milliseconds(outcome),
        f"{outcome.return_ms:.0f}",
        f"{outcome.settle_seconds:.1f}",
        str(len(outcome.injections)),
    ]
    return f"| {' | '.join(cells)} |"


def _facts(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        **_circumstances(),
        "last_lines": last_lines(outcomes),
        "cells": [
            {
                "cell": outcome.cell.name,
                "passed": outcome.passed,
                "skipped": outcome.skipped,
                "failures": outcome.failures,
                "seconds": round(outcome.seconds, 1),
                "failover_ms": round(outcome.failover_ms),
                "goal_ms": outcome.cell.goal_ms,
                "return_ms": round(outcome.return_ms),
                "settle_seconds": round(outcome.settle_seconds, 1),
                "injections": [injection.what for injection in outcome.injections],
                **({} if outcome.verdict is None else _verdict_facts(outcome)),
            }
            for outcome in outcomes
        ],
    }


def _verdict_facts(outcome: Outcome) -> dict[str, Any]:
    assert outcome.verdict is not None
    figures = outcome.verdict.figures
    return {
        "counts": {str(kind): count for kind, count in outcome.verdict.counts.items()},
        "apart": {str(apart): count for apart, count in outcome.verdict.apart.items()},
        "incomplete": outcome.verdict.incomplete,
        "operations": figures.operations,
        "operations_per_second": round(figures.operations_per_second),
        "sent": figures.sent,
        "acknowledged": figures.acknowledged,
        "refused": figures.refused,
        "indeterminate": figures.indeterminate,
        "records_read": figures.records_read,
        "errors": dict(figures.errors.most_common()),
    }


def _circumstances() -> dict[str, str]:
    root = Path(__file__).parents[2]
    describe = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(describe, cwd=root, capture_output=True, text=True, check=False)
    load = os.getloadavg()[0]
    return {
        "command": f"python -m tests.faults {shlex.join(sys.argv[1:])}".strip(),
        "commit": done.stdout.strip() or "an unknown commit",
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, "
        f"load {load:.1f} at the end",
    }


def _anomalies(outcome: Outcome) -> str:
    assert outcome.verdict is not None
    found = [f"{kind} {count}" for kind, count in outcome.verdict.counts.items() if count]
    if outcome.verdict.incomplete:
        found.append("incomplete")
    return ", ".join(found) or "none"


def _milliseconds(outcome: Outcome) -> str:
    goal = outcome.cell.goal_ms
    if goal is None:
        return f"{outcome.failover_ms:.0f} ms"
    return f"{outcome.failover_ms:.0f} ms ({'' if outcome.meets_goal else 'over '}{goal})"


def _count(outcomes: Sequence[Outcome], kind: Kind) -> int:
    return sum(outcome.verdict.counts[kind] for outcome in outcomes if outcome.verdict is not None)


def _names(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
