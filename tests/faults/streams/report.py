"""What a run says at its end, and the page of all runs that were saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.rows import Run

RESULTS: Final = Path(__file__).parents[1] / "results/streams.md"
_NAMES: Final = {"barnabas": "Barnabas", "kafka": "Apache Kafka"}


class Row(msgspec.Struct, kw_only=True, frozen=True):
    run: Run
    broker: str
    program: str
    killed: str
    """Which processes: logstores (or brokers), each, none."""
    seconds: float
    kills: int
    sent: int = 0
    """Words that were acknowledged."""
    failed: int = 0
    counts: int = 0
    """Records of the output that a read_committed consumer got."""
    wrong: dict[str, int] = {}
    smoke: str = ""
    """The verdict of the smoke test."""
    unfinished: str = ""
    """Why there is no verdict."""

    @property
    def is_right(self) -> bool:
        if self.unfinished:
            return False
        if self.program == "smoke test":
            return self.smoke == "SUCCESS"
        return self.sent > 0 and self.failed == 0 and not any(self.wrong.values())

    @property
    def verdict(self) -> str:
        if self.unfinished:
            return f"no verdict: {self.unfinished.splitlines()[0]}"
        if self.program == "smoke test":
            return self.smoke
        return ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in self.wrong.items())


def verdict_line(row: Row) -> str:
    """Of one run."""
    words = f", {row.sent} words, {row.counts} counts" if row.program == "word count" else ""
    detail = f"\n{row.unfinished}" if row.unfinished else ""
    return f"{row.program} at {row.broker}: {row.kills} kills ({row.killed}){words}: {row.verdict}{detail}"


def save(row: Row, path: Path) -> None:
    """Add it to the page at `path`, everything as JSON beside it."""
    kept = path.with_suffix(".json")
    before = msgspec.json.decode(kept.read_bytes(), type=list[Row]) if kept.exists() else []
    rows = [*before, row]
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    path.write_text(page_of(rows))


def page_of(rows: Sequence[Row]) -> str:
    """In Markdown."""
    lines = [
        "# Kafka Streams, exactly once, while processes are killed",
        "",
        "Written by `make streams`. The word count: three brokers, two instances of an application with",
        "exactly_once_v2; every count of every word is a record, and a read_committed consumer must find each count",
        "from 1 up to how often the word was acknowledged, once and in order. The smoke test is Kafka Streams' own",
        "(its test jar), which verifies itself.",
        "",
        "| date | commit | broker | program | killed | kills | words | counts | verdict |",
        "|---|---|---|---|---|---:|---:|---:|---|",
    ]
    for row in rows:
        cells = (
            row.run.date,
            row.run.commit,
            _NAMES[row.broker],
            row.program,
            row.killed,
            str(row.kills),
            f"{row.sent:,}" if row.sent else "",
            f"{row.counts:,}" if row.counts else "",
            row.verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
