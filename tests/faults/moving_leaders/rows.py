"""What is kept of a run: a row of a page, and a JSON object beside it."""

from __future__ import annotations

import os

import msgspec

from tests.faults.moving_leaders.check import Kind, Verdict
from tests.faults.moving_leaders.movers import Move
from tests.faults.moving_leaders.producers import KNOWN_AT_KAFKA, Client
from tests.faults.moving_leaders.run import Outcome, Plan
from tests.faults.rows import Run


class Row(msgspec.Struct, kw_only=True):
    run: Run
    session: str
    """When the session began; runs of one session took turns on the same machine."""
    is_interleaved: bool
    """Whether the session had runs of both brokers, in turn."""
    number: int
    """In its session, from 1, per broker."""
    broker: str
    client: Client
    client_version: str
    move: Move
    seconds: float
    partitions: int
    producers: int
    seed: int
    is_beside_load: bool
    """CPU load that comes and goes."""
    load: float
    """Of the machine, over the last minute of the run."""
    moves: int
    rounds: int
    refused: int
    sent: int
    acknowledged: int
    without_offset: int
    longest_wait_ms: int
    counts: dict[str, int]
    errors: dict[str, int]
    unfinished: str = ""
    """Why the run came to no verdict; all counts are 0 then."""

    def count(self, kind: Kind) -> int:
        return self.counts.get(kind, 0)


def row_of(outcome: Outcome, plan: Plan, **about: object) -> Row:
    """Of a run that has just been played."""
    verdict = outcome.verdict
    return _row(
        plan,
        about,
        client_version=outcome.client_version,
        moves=outcome.moves,
        rounds=outcome.rounds,
        refused=outcome.refused,
        **_figures(verdict),
    )


def row_without_verdict(reason: str, plan: Plan, **about: object) -> Row:
    figures = _figures(Verdict())
    return _row(plan, about, client_version="", moves=0, rounds=0, refused=0, **figures, unfinished=reason)


def _row(plan: Plan, about: dict[str, object], **measured: object) -> Row:
    return msgspec.convert(
        {**about, **msgspec.to_builtins(plan), **measured, "load": round(os.getloadavg()[0], 1)}, type=Row
    )


def _figures(verdict: Verdict) -> dict[str, object]:
    return {
        "sent": verdict.sent,
        "acknowledged": verdict.acknowledged,
        "without_offset": verdict.without_offset,
        "longest_wait_ms": verdict.longest_wait_ms,
        "counts": {str(kind): count for kind, count in verdict.counts.items()},
        "errors": dict(verdict.errors.most_common()),
    }


def wrong(rows: list[Row]) -> list[str]:
    """What should not be in the rows of one session, one line each; none: all is well.

    librdkafka's doubled and out of order records count at Barnabas where there are more a move than at Apache Kafka in
    the same session, and all of them where that session has no run of Kafka.
    """
    lines = []
    for row in rows:
        if row.unfinished:
            lines.append(f"{_name(row)}: {row.unfinished}")
        found = [(kind, row.count(kind)) for kind in Kind if row.count(kind) and not _is_judged_beside_kafka(row, kind)]
        if found:
            lines.append(f"{_name(row)}: " + ", ".join(f"{kind} {count}" for kind, count in found))
    for kind in sorted(KNOWN_AT_KAFKA[Client.LIBRDKAFKA]):
        lines += _more_than_kafka(kind, [row for row in rows if _is_judged_beside_kafka(row, kind)])
    return lines


def per_100_moves(kind: Kind, rows: list[Row]) -> float:
    """Over all of the rows."""
    return 100 * sum(row.count(kind) for row in rows) / max(1, sum(row.moves for row in rows))


def _is_judged_beside_kafka(row: Row, kind: Kind) -> bool:
    return kind in KNOWN_AT_KAFKA[row.client]


def _more_than_kafka(kind: Kind, rows: list[Row]) -> list[str]:
    barnabas = per_100_moves(kind, [row for row in rows if row.broker == "barnabas"])
    kafka = per_100_moves(kind, [row for row in rows if row.broker == "kafka"])
    if barnabas <= kafka:
        return []
    return [f"librdkafka: {kind} {barnabas:.2f} per 100 moves at Barnabas, {kafka:.2f} at Apache Kafka in this session"]


def _name(row: Row) -> str:
    return f"run {row.number}, {row.client} at {row.broker}"
