"""What a run says at its end, and the page of all runs that were saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.moving_leaders.check import Kind
from tests.faults.moving_leaders.movers import Move
from tests.faults.moving_leaders.producers import Client
from tests.faults.moving_leaders.rows import Row, per_100_moves

RESULTS: Final = Path(__file__).parents[1] / "results/moving-leaders.md"
_IN_TABLE: Final = (
    Kind.FAILED,
    Kind.FAILED_THOUGH_WRITTEN,
    Kind.LOST,
    Kind.DOUBLED,
    Kind.OUT_OF_ORDER,
    Kind.OTHER_OFFSET,
)
_NAMES: Final = {"barnabas": "Barnabas", "kafka": "Apache Kafka"}


def verdict_line(row: Row) -> str:
    """Of one run."""
    run = f"run {row.number}, {row.client} at {row.broker}, {row.move}"
    if row.unfinished:
        return f"{run}: no verdict: {row.unfinished}"
    always = ", ".join(f"{kind} {row.count(kind)}" for kind in _IN_TABLE)
    more = "".join(f", {kind} {row.count(kind)}" for kind in Kind if kind not in _IN_TABLE and row.count(kind))
    return (
        f"{run}: {row.moves} moves, {row.acknowledged} acknowledged, {always}{more}; "
        f"longest wait {row.longest_wait_ms / 1000:.1f} s"
    )


def save(rows: Sequence[Row], path: Path) -> None:
    """Add them to the page at `path`, everything as JSON beside it."""
    path.parent.mkdir(exist_ok=True)
    kept = path.with_suffix(".json")
    before = msgspec.json.decode(kept.read_bytes(), type=list[Row]) if kept.exists() else []
    page = [*before, *rows]
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(page)) + b"\n")
    path.write_text(page_of(page))


def page_of(rows: Sequence[Row]) -> str:
    """In Markdown."""
    return "\n".join(
        [
            "# Leaders that move under the clients that people use",
            "",
            "Idempotent producers (acks=all) send to a topic of three replicas (min.insync.replicas 2) as fast as they",
            "are acknowledged, while its leaders move: by rotating the replicas of all partitions each 0.6 s and",
            "electing preferred leaders (reassign), by SIGTERM to one broker after the other (shutdown), by kill -9 of",
            "brokers that lead (kill). Then every partition is read. Written by `make moving-leaders`; see",
            "[faults.md](../../../docs/verify/faults.md).",
            "",
            "Doubled and out of order records of librdkafka are held against Apache Kafka's of the same session, per",
            "100 moves: its issue 4953 makes them at Kafka, too.",
            "",
            "## By client, move and commit",
            "",
            *_sums(rows),
            "",
            "## Each run",
            "",
            *_runs(rows),
            "",
        ]
    )


def _sums(rows: Sequence[Row]) -> list[str]:
    """A line for Barnabas and one for Apache Kafka beside it, of the sessions at one commit."""
    columns = ["client", "move", "beside", "commit", "broker", "runs", "records", "moves", *_IN_TABLE]
    lines = [
        _line([*columns, "doubled per 100 moves", "out of order per 100 moves"]),
        "|---" * (len(columns) + 2) + "|",
    ]
    keys = sorted({_key(row) for row in rows})
    for key in keys:
        for broker in _NAMES:
            found = [row for row in rows if _key(row) == key and row.broker == broker]
            if not found:
                continue
            ended = [row for row in found if not row.unfinished]
            without = f" ({len(found) - len(ended)} without a verdict)" if len(ended) < len(found) else ""
            figures = [
                _NAMES[broker],
                f"{len(found)}{without}",
                sum(row.acknowledged for row in ended),
                sum(row.moves for row in ended),
                *(sum(row.count(kind) for row in ended) for kind in _IN_TABLE),
                *(f"{per_100_moves(kind, ended):.2f}" for kind in (Kind.DOUBLED, Kind.OUT_OF_ORDER)),
            ]
            client, move, is_beside_load, commit = key
            lines.append(_line([client, move, "load" if is_beside_load else "nothing", commit, *figures]))
    return lines


def _key(row: Row) -> tuple[Client, Move, bool, str]:
    return row.client, row.move, row.is_beside_load, row.run.commit


def _runs(rows: Sequence[Row]) -> list[str]:
    columns = [
        "session",
        "run",
        "client",
        "move",
        "s",
        "partitions",
        "producers",
        "broker",
        "in turn",
        "beside",
        "load",
    ]
    lines = [_line([*columns, "moves", "acknowledged", "wrong", "longest wait, s", "commit"])]
    lines.append("|---" * (len(columns) + 5) + "|")
    for row in rows:
        found = [f"{kind} {row.count(kind)}" for kind in Kind if row.count(kind)]
        wrong = row.unfinished.splitlines()[0] if row.unfinished else ", ".join(found)
        lines.append(
            _line(
                [
                    row.session,
                    row.number,
                    f"{row.client} {row.client_version}".strip(),
                    row.move,
                    f"{row.seconds:g}",
                    row.partitions,
                    row.producers,
                    _NAMES[row.broker],
                    "yes" if row.is_interleaved else "no",
                    "load" if row.is_beside_load else "nothing",
                    row.load,
                    row.moves,
                    row.acknowledged,
                    wrong or "nothing",
                    f"{row.longest_wait_ms / 1000:.1f}",
                    row.run.commit,
                ]
            )
        )
    return lines


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
