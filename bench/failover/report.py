"""What a run leaves behind: JSON with every figure, and the tables."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from bench.failover.measurements import ControlledShutdown, Failover, ManyPartitions, Spread
from bench.failover.trio import LEASE_TTL_SECONDS
from bench.report import provenance, save_figures

KILL_SECONDS_GOAL = 2.0
PAUSE_SECONDS_GOAL = LEASE_TTL_SECONDS + 1
SHUTDOWN_SECONDS_GOAL = 3.0


@dataclass(slots=True)
class SideResult:
    name: str
    flags: dict[str, str]
    kills: list[Failover] = field(default_factory=list)
    pauses: list[Failover] = field(default_factory=list)
    shutdown: ControlledShutdown | None = None
    many: ManyPartitions | None = None


@dataclass(slots=True)
class FailoverRun:
    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    client: str
    sides: list[SideResult]


def save(run: FailoverRun) -> Path:
    """Write both; returns the path of the tables."""
    path = save_figures(run, "failover").with_suffix(".md")
    path.write_text(tables(run) + "\n")
    return path


def tables(run: FailoverRun) -> str:
    lines = [
        "# Failover, measured from outside",
        "",
        f"{provenance(run)} Client {run.client} on the same machine, idempotent, acks=all, "
        "`min.insync.replicas` 2, three brokers, RF 3. Every partition has one record at a time on its way.",
        "",
        "| what | goal | " + " | ".join(side.name for side in run.sides) + " |",
        "|---|---|" + "---|" * len(run.sides),
    ]
    rows = [
        (
            "writes resume after kill -9 of a leader: median of runs (slowest partition of the slowest run)",
            f"≤ {KILL_SECONDS_GOAL:.0f} s",
            [_failovers(side.kills) for side in run.sides],
        ),
        (
            "writes resume after SIGSTOP of a leader: the same",
            f"≤ {PAUSE_SECONDS_GOAL:.0f} s",
            [_failovers(side.pauses) for side in run.sides],
        ),
        (
            "controlled shutdown of 1,000 led partitions: SIGTERM to the end of the process",
            f"≤ {SHUTDOWN_SECONDS_GOAL:.0f} s",
            [_shutdown(side.shutdown) for side in run.sides],
        ),
        (
            "the same: the slowest write",
            "",
            ["" if side.shutdown is None else f"{side.shutdown.slowest_write_seconds:.2f} s" for side in run.sides],
        ),
        ("client errors in all of the above", "0", [str(_errors(side)) for side in run.sides]),
    ]
    lines += [f"| {what} | {goal} | {' | '.join(cells)} |" for what, goal, cells in rows]
    lines += _many_table(run.sides)
    return "\n".join(lines)


def _many_table(sides: list[SideResult]) -> list[str]:
    measured = [(side.name, side.many) for side in sides if side.many is not None]
    if not measured:
        return []
    partitions = measured[0][1].partitions
    lines = [
        "",
        f"## {partitions:,} partitions, {3 * partitions:,} replicas on one machine",
        "",
        "| what | " + " | ".join(name for name, _ in measured) + " |",
        "|---|" + "---|" * len(measured),
    ]
    results = [many for _, many in measured]
    rows = [
        ("created: CreateTopics answered", [f"{each.created_seconds:.1f} s" for each in results]),
        (
            "then written to by one producer that knew none of them",
            [f"{each.written_seconds:.1f} s" for each in results],
        ),
        ("etcd: transactions, keys put", [_etcd(each.creation_etcd) for each in results]),
        ("CPU time of all services", [f"{each.cpu_seconds_creation:.1f} s" for each in results]),
        ("partitions that the killed broker led", [f"{each.led_by_the_dead:,}" for each in results]),
        ("others lead all of them, as metadata shows", [f"{each.elected_seconds:.2f} s" for each in results]),
        (
            "led again and written to by one producer, a request each: median, last",
            [_spread(each.led_again_seconds) for each in results],
        ),
        ("etcd: transactions, keys put", [_etcd(each.failover_etcd) for each in results]),
        ("whole again after its restart", [f"{each.whole_again_seconds:.1f} s" for each in results]),
        ("memory of all services (PSS)", [f"{each.memory_bytes / 1e6:,.0f} MB" for each in results]),
        ("client errors", [str(each.client_errors) for each in results]),
    ]
    return lines + [f"| {what} | {' | '.join(cells)} |" for what, cells in rows]


def _failovers(failovers: list[Failover]) -> str:
    if not failovers:
        return ""
    slowest = [each.resumed_seconds.maximum for each in failovers]
    return f"{statistics.median(slowest):.2f} s ({max(slowest):.2f} s), {len(failovers)} runs"


def _shutdown(shutdown: ControlledShutdown | None) -> str:
    return "" if shutdown is None else f"{shutdown.ended_seconds:.2f} s ({shutdown.led:,} led)"


def _errors(side: SideResult) -> int:
    errors = sum(each.client_errors for each in (*side.kills, *side.pauses))
    return errors + (0 if side.shutdown is None else side.shutdown.client_errors)


def _spread(spread: Spread) -> str:
    return f"{spread.median:.2f} s, {spread.maximum:.2f} s"


def _etcd(counters: dict[str, int]) -> str:
    return f"{counters['transactions']}, {counters['puts']}" if counters else "no etcd"
