"""What a run says: a line per cell as it goes, the two last lines, and the page that is saved.

A page has a row for each cell. Cells that are played alone later take the place of their old rows, and each row names
the commit that it was played at.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.cells import CELLS
from tests.faults.checker.verdict import Apart, Kind
from tests.faults.grid import Outcome
from tests.faults.rows import Row, Run

RESULTS: Final = Path(__file__).with_name("results")
_IN_LAST_LINE: Final = (Kind.LOST, Kind.DUPLICATED, Kind.REORDERED)
_COLUMNS: Final = (
    "cell",
    "operations/s",
    "acknowledged",
    "unknown",
    "anomalies",
    "read at a cut-off leader",
    "failover (goal)",
    "return ms",
    "settled s",
    "faults",
    "commit",
)


def progress_line(outcome: Outcome, row: Row) -> str:
    """One cell."""
    if row.skipped:
        return f"skip {row.cell}: {row.skipped}"
    parts = [f"{'ok  ' if row.passed else 'FAIL'} {row.cell} {row.seconds:.0f} s"]
    verdict = outcome.verdict
    if verdict is not None:
        parts += [
            f"{row.operations} operations ({row.operations_per_second}/s)",
            f"{row.acknowledged} acknowledged",
            f"failover {row.failover}",
            f"return {row.return_ms} ms",
            f"settled {row.settle_seconds:.1f} s",
            f"{len(row.injections)}x",
            row.anomalies,
        ]
        if row.at_cut_off_leader:
            parts.append(f"{Apart.AT_CUT_OFF_LEADER} {row.at_cut_off_leader}")
    lines = [", ".join(parts)]
    lines += [f"     {failure}" for failure in row.failures]
    if verdict is not None and not verdict.is_clean:
        lines += [f"     {line}" for line in str(verdict).splitlines()]
    return "\n".join(lines)


def last_lines(rows: Sequence[Row]) -> list[str]:
    """The two that a run ends with."""
    played = [row for row in rows if not row.skipped]
    failed = [row.cell for row in played if not row.passed]
    missed = [row.cell for row in played if not row.meets_goal]
    notes = [
        *(f"{kind} {_count(played, kind)}" for kind in Kind if kind not in _IN_LAST_LINE),
        f"{Apart.AT_CUT_OFF_LEADER} {sum(row.at_cut_off_leader for row in played)}",
        f"skipped {len(rows) - len(played)}",
        f"failed {len(failed)}{_names(failed)}",
        f"slower than the goal {len(missed)}{_names(missed)}",
    ]
    counts = ", ".join(f"{kind} {_count(played, kind)}" for kind in _IN_LAST_LINE)
    return [", ".join(notes), f"{len(played)} cells, {counts}"]


def save(rows: Sequence[Row], path: Path) -> None:
    """The page at `path`, everything as JSON beside it. Other cells that are on the page keep their rows."""
    path.parent.mkdir(exist_ok=True)
    kept = path.with_suffix(".json")
    before = msgspec.json.decode(kept.read_bytes(), type=list[Row]) if kept.exists() else []
    by_cell = {row.cell: row for row in (*before, *rows)}
    page = [by_cell[cell] for cell in CELLS if cell in by_cell]
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(page)) + b"\n")
    path.write_text(page_of(page))


def page_of(rows: Sequence[Row]) -> str:
    """In Markdown."""
    lines = [
        "# Real faults on real processes",
        "",
        *_runs(rows),
        "",
        "Failover: the longest time that any partition waited for an acknowledged write (idempotent or acks=all) from",
        "the fault on. Return: the same from the moment when the fault was taken back. Settled: from then until every",
        "process knew every other one and every ISR was full again. Read at a cut-off leader: old log ends",
        "returned by a leader that was cut off from the majority and could not know of its successor; Kafka promises",
        "no more. See [faults.md](../../../docs/verify/faults.md).",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"{'|---' * len(_COLUMNS)}|",
        *(_line(row) for row in rows),
        "",
        "```",
        *last_lines(rows),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _runs(rows: Sequence[Row]) -> list[str]:
    """The one that most rows are of, and those in which cells were played again."""
    rows_of: dict[Run, list[Row]] = {}
    for row in rows:
        rows_of.setdefault(row.run, []).append(row)
    largest, *others = sorted(rows_of.values(), key=len, reverse=True)
    lines = [_run_line(largest)]
    if others:
        lines += ["", "Played again later, by themselves; each row names its commit:", ""]
        lines += [f"- {_run_line(each)}" for each in others]
    return lines


def _run_line(rows: Sequence[Row]) -> str:
    """Of one run."""
    run = rows[0].run
    loads = [row.load for row in rows if row.load is not None]
    load = f", load {min(loads)} to {max(loads)}" if loads else ""
    return f"`{run.command}` at {run.commit} on {run.date}: {run.machine}{load}."


def _line(row: Row) -> str:
    cells = [row.cell, *[""] * (len(_COLUMNS) - 2), row.run.commit]
    if row.skipped:
        cells[1] = f"skipped: {row.skipped}"
    elif not row.counts:
        cells[1] = f"failed: {'; '.join(row.failures)}"
    else:
        cells[1:-1] = [
            str(row.operations_per_second),
            str(row.acknowledged),
            str(row.indeterminate),
            "; ".join([row.anomalies, *row.failures]),
            str(row.at_cut_off_leader or ""),
            row.failover,
            str(row.return_ms),
            f"{row.settle_seconds:.1f}",
            str(len(row.injections)),
        ]
    return f"| {' | '.join(cells)} |"


def _count(rows: Sequence[Row], kind: Kind) -> int:
    return sum(row.counts.get(kind, 0) for row in rows)


def _names(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
