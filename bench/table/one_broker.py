"""The rows of one broker: produce, consume, commits, heartbeats, connections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench import consuming
from bench.groups.heartbeats import heartbeats
from bench.groups.measurements import Comparison, commits
from bench.groups.members import TOPIC
from bench.groups.swarm import Swarm
from bench.kfake.side import KfakeMissingError, KfakeSide, build
from bench.loads import LOADS, create_topic
from bench.many_connections import EVERY_SECONDS, ManyConnections, connections_possible
from bench.one_at_a_time import GRPC_PORT
from bench.sides import ApacheKafkaSide, BarnabasSide, Side
from bench.table.produce_rows import one_at_a_time, produce_loads
from bench.table.rows import GRPC, KAFKA, KFAKE, OURS, Row, Sample, Say
from bench.table.scale import Scale
from bench.table.stage import Stage, at_once


def sides(homes: dict[str, Path], scale: Scale, say: Say) -> dict[str, Side]:
    """Barnabas, by gRPC too in a whole run, Apache Kafka, and kfake where it can be built."""
    ours = BarnabasSide(homes[OURS])
    found: dict[str, Side] = {OURS: ours}
    if not scale.is_quick and ours.lane == "on":
        found[GRPC] = BarnabasSide(homes[GRPC], port=GRPC_PORT, lane="off")
    found[KAFKA] = ApacheKafkaSide(homes[KAFKA])
    try:
        found[KFAKE] = KfakeSide(build(), homes[KFAKE])
    except KfakeMissingError as reason:
        say(f"without kfake: {reason}")
    return found


def take(stage: Stage) -> None:
    everyone = (OURS, GRPC, KAFKA, KFAKE)
    stage.warm_up(LOADS[0])
    one_at_a_time(stage, stage.of(*everyone), 1)
    # kfake is a goal of single records alone: a quick run has no time for its batches.
    of_batches = (OURS, GRPC, KAFKA) if stage.scale.is_quick else everyone
    produce_loads(stage, {"single": everyone} | dict.fromkeys(("batched-100", "batched-1000"), of_batches))
    _consume(stage)
    _commits(stage)
    _heartbeats(stage)
    if stage.scale.connections:
        _connections(stage)


def _consume(stage: Stage) -> None:
    sides_of_row = stage.of(OURS, GRPC, KAFKA)
    titles = {
        "tail": "consume 1,000 B, at the tail",
        "backlog": "consume 1,000 B, from the backlog after a restart",
        "cold": "consume 1,000 B, cold (not in the page cache)",
    }
    for name, title in titles.items():
        with stage.row(Row(f"consume-{name}", title, "≥ 1.2, CPU ≤ 1.0", "MB/s", "ms a MB")) as row:
            if name == "tail":
                for side in sides_of_row.values():
                    consuming.fill(side, stage.scale.megabytes)
            if name == "backlog":
                at_once(_restart, sides_of_row.values())
            takers = {side_name: _consumer(stage, name, side_name) for side_name in sides_of_row}
            for warm_up in takers.values():
                warm_up()
            stage.take(row, takers)


def _restart(side: Side) -> None:
    side.stop()
    side.start()


def _consumer(stage: Stage, row: str, name: str) -> Callable[[], Sample]:
    def take_sample() -> Sample:
        taken = consuming.measure(row, name, stage.sides[name], stage.homes[name], stage.scale.touched_bytes)
        return Sample(taken.megabytes_per_second, taken.cpu_ms_per_megabyte, taken.system_cpu_ms_per_megabyte)

    return take_sample


def _commits(stage: Stage) -> None:
    with (
        stage.row(
            Row("commits", "OffsetCommit, 50 connections, one at a time each", "≥ 0.8", "commits/s", "µs a commit")
        ) as row,
        Swarm() as swarm,
    ):
        for name in (OURS, KAFKA):
            create_topic(stage.sides[name].bootstrap, TOPIC, 1)
        scale = stage.scale
        _keep(row, commits(swarm, *_two(stage), 1, scale.turns, scale.seconds, stage.say))


def _heartbeats(stage: Stage) -> None:
    groups, scale = stage.scale.groups, stage.scale
    title = f"{groups * 10:,} members, a heartbeat each 3 s: CPU of one core"
    with stage.row(Row("heartbeats", title, "CPU ≤ 1.0", "%", "µs a heartbeat", is_less_better=True)) as row:
        warm_ups = 0 if scale.is_quick else 1
        _keep(
            row,
            heartbeats(*_two(stage), groups, scale.heartbeat_turns, scale.heartbeat_seconds, stage.say, warm_ups),
        )


def _two(stage: Stage) -> tuple[Side, Side]:
    return stage.sides[OURS], stage.sides[KAFKA]


def _keep(row: Row, comparison: Comparison) -> None:
    for name, samples in ((OURS, comparison.ours), (KAFKA, comparison.theirs)):
        row.samples[name] = [
            Sample(each.value, each.cpu_us, each.system_cpu_us, p99_us=each.p99_ms * 1e3) for each in samples
        ]


def _connections(stage: Stage) -> None:
    count = connections_possible(stage.scale.connections)
    title = f"{count:,} connections, each with a produce every {EVERY_SECONDS:.0f} s: p99"
    with stage.row(Row("connections", title, "p99 and memory ≤ 1.0", "ms", "µs a request", is_less_better=True)) as row:
        many = {name: ManyConnections(stage.sides[name], count) for name in (OURS, KAFKA)}

        def taker(name: str) -> Callable[[], Sample]:
            def take_sample() -> Sample:
                asked, cpu = many[name].sample(stage.scale.connection_seconds)
                per = 1e6 / asked.answered
                return Sample(
                    asked.p99_us / 1e3, cpu.total * per, cpu.system * per, p50_us=asked.p50_us, p99_us=asked.p99_us
                )

            return take_sample

        stage.take(row, {name: taker(name) for name in many}, stage.scale.heartbeat_turns)
        row.memory_bytes |= stage.memory_bytes(many)
        for each in many.values():
            each.close()
