"""What a run of transactional cells says, and the page that is saved: a row for each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.rows import Run
from tests.faults.transactions.check import Kind

RESULTS: Final = Path(__file__).parents[1] / "results/transactions.md"
_IN_LAST_LINE: Final = (Kind.LOST, Kind.DOUBLED, Kind.DIRTY)


class Row(msgspec.Struct, kw_only=True):
    """One cell, as it is kept beside the page."""

    cell: str
    run: Run
    skipped: str = ""
    """Why it was not played."""
    failures: list[str] = []
    """What went wrong beside the records: a cluster that did not come back, clients that stopped."""
    incomplete: list[str] = []
    counts: dict[str, int] = {}
    """By Kind; empty where there was no history to check."""
    fed: int = 0
    copied: int = 0
    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    fenced: int = 0
    silence_ms: int = 0
    """The longest time without a committed transaction."""
    faults: int = 0
    seconds: float = 0.0
    load: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures and not self.incomplete and not any(self.counts.values())

    @property
    def anomalies(self) -> str:
        found = [f"{kind} {count}" for kind, count in self.counts.items() if count]
        return "; ".join([*found, *(["incomplete"] if self.incomplete else []), *self.failures]) or "none"


def progress_line(row: Row) -> str:
    """One cell."""
    if row.skipped:
        return f"skip {row.cell}: {row.skipped}"
    return (
        f"{'ok  ' if row.passed else 'FAIL'} {row.cell} {row.seconds:.0f} s, {row.faults}x, {row.fed} fed, "
        f"{row.copied} copied, {row.committed} committed, {row.aborted} aborted, {row.unknown} unknown, "
        f"{row.fenced} fenced, {row.silence_ms} ms without a commit, {row.anomalies}"
    )


def last_line(rows: Iterable[Row]) -> str:
    """The one that a run ends with."""
    played = [row for row in rows if not row.skipped]
    failed = [row.cell for row in played if not row.passed]
    counts = ", ".join(f"{kind} {sum(row.counts.get(kind, 0) for row in played)}" for kind in _IN_LAST_LINE)
    others = sum(row.counts.get(kind, 0) for row in played for kind in Kind if kind not in _IN_LAST_LINE)
    names = f" ({', '.join(failed)})" if failed else ""
    return f"{len(played)} cells with transactions, {counts}, other anomalies {others}, failed {len(failed)}{names}"


def save(rows: Sequence[Row], order: Sequence[str], path: Path) -> None:
    """Put the rows on the page at `path`, everything as JSON beside it. Other cells there keep their rows."""
    kept = path.with_suffix(".json")
    before = msgspec.json.decode(kept.read_bytes(), type=list[Row]) if kept.exists() else []
    by_cell = {row.cell: row for row in (*before, *rows)}
    page = [by_cell[cell] for cell in order if cell in by_cell]
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(page)) + b"\n")
    path.write_text(page_of(page))


def page_of(rows: Sequence[Row]) -> str:
    """In Markdown."""
    runs = {(row.run.command, row.run.commit, row.run.date, row.run.machine): None for row in rows}
    lines = [
        "# Transactions under real faults",
        "",
        "Written by `make faults-transactions`. Two copiers (consume, transform, produce, in one group) and two",
        "writers of transactions over all partitions run while the fault is repeated; some transactions are aborted,",
        "some producers are left with an open transaction for a successor to fence. They are librdkafka's, with",
        "transaction version 1; in cells whose names end in `-java` they are Kafka's own, with version 2. At the",
        "end everything is read with read_committed through each gateway. See",
        "[faults.md](../../../docs/verify/faults.md).",
        "",
        *(f"- `{command}` at {commit} on {date}: {machine}" for command, commit, date, machine in runs),
        "",
        "| cell | anomalies | fed | copied | committed | aborted | unknown | fenced | longest without a commit "
        "| faults | load | commit |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        if row.skipped:
            lines.append(f"| {row.cell} | skipped: {row.skipped} {'| ' * 10}| {row.run.commit} |")
            continue
        figures = (row.fed, row.copied, row.committed, row.aborted, row.unknown, row.fenced)
        cells = (
            row.cell,
            row.anomalies,
            *(f"{figure:,}" for figure in figures),
            f"{row.silence_ms:,} ms",
            str(row.faults),
            str(row.load),
            row.run.commit,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", "```", last_line(rows), "```", ""])
