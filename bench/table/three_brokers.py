"""The rows of three brokers: idle, single requests, batches, first writes, and the start from their data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.accounting import cpu_time
from bench.failover.leaders import Leaders
from bench.failover.load import create_topics
from bench.loads import REPLICATED_LOADS
from bench.partitions.measurements import REPLICATION_FACTOR, Measured, first_writes
from bench.sides import ApacheKafkaSide, BarnabasSide, Side
from bench.table.produce_rows import one_at_a_time, produce_loads
from bench.table.rows import KAFKA, OURS, Row, Sample, Say
from bench.table.scale import Scale
from bench.table.stage import Stage

BROKERS: Final = 3
_PARTITIONS_EACH: Final = 1000


def sides(homes: dict[str, Path], scale: Scale, say: Say) -> dict[str, Side]:
    return {OURS: BarnabasSide(homes[OURS], BROKERS), KAFKA: ApacheKafkaSide(homes[KAFKA], BROKERS)}


def take(stage: Stage) -> None:
    _idle(stage)
    stage.warm_up(REPLICATED_LOADS[0])
    one_at_a_time(stage, stage.sides, BROKERS)
    produce_loads(stage, dict.fromkeys(("replicated-single", "replicated-100", "replicated-1000"), tuple(stage.sides)))
    _starts(stage)
    if stage.scale.compares_partitions:
        _first_writes(stage, stage.sides, 1)
    _first_writes(stage, stage.of(OURS), stage.scale.topics_of_1000)


def _idle(stage: Stage) -> None:
    title = "three brokers without topics, idle: CPU of one core"
    with stage.row(Row("idle", title, "≤ 5 %", "%", is_less_better=True)) as row:
        time.sleep(stage.scale.settle_seconds)
        row.samples = {name: [] for name in stage.sides}
        # Both in the same seconds: neither does anything.
        for _ in range(stage.scale.idle_windows):
            before = {name: cpu_time(side.sessions) for name, side in stage.sides.items()}
            began = time.monotonic()
            time.sleep(stage.scale.idle_seconds)
            for name, side in stage.sides.items():
                used = cpu_time(side.sessions).since(before[name])
                row.samples[name].append(Sample(used.total / (time.monotonic() - began) * 100))
        stage.say(f"  idle: {', '.join(f'{name} {row.median(name):.1f} %' for name in row.samples)}")


def _first_writes(stage: Stage, sides: Mapping[str, Side], topics: int) -> None:
    count = topics * _PARTITIONS_EACH
    title = f"{count:,} partitions, RF {REPLICATION_FACTOR}: one producer's first write to each, the last after"
    # The goal is that of 10,000.
    with stage.row(Row(f"first-writes-{count}", title, "≤ 5 s", "s", "s in all", is_less_better=True)) as row:
        names = [f"first-writes-{count}-{number:02d}" for number in range(topics)]
        for side in sides.values():
            for name in names:
                create_topics(side.bootstrap, [name], _PARTITIONS_EACH, REPLICATION_FACTOR)
            Leaders(side.bootstrap, names, _PARTITIONS_EACH).wait_until_whole()
        time.sleep(stage.scale.settle_seconds)
        partitions = [(name, number) for name in names for number in range(_PARTITIONS_EACH)]

        def taker(side: Side) -> Callable[[], Sample]:
            def take_sample() -> Sample:
                measured = Measured(side.name, count)
                before = cpu_time(side.sessions)
                first_writes(side, partitions, measured)
                cpu = cpu_time(side.sessions).since(before)
                median_us = measured.first_writes_median_seconds * 1e6
                return Sample(measured.first_writes_seconds, cpu.total, cpu.system, p50_us=median_us)

            return take_sample

        # A partition has one first write.
        stage.take(row, {name: taker(side) for name, side in sides.items()}, 1)


def _starts(stage: Stage) -> None:
    title = "three brokers stopped, then started from their data: until a client can produce"
    with stage.row(Row("start-from-data", title, "≤ 2.5 s", "s", is_less_better=True)) as row:

        def taker(side: Side) -> Callable[[], Sample]:
            def take_sample() -> Sample:
                side.stop()
                began = time.monotonic()
                side.start()
                return Sample(time.monotonic() - began)

            return take_sample

        sides = stage.sides if stage.scale.compares_partitions else stage.of(OURS)
        stage.take(row, {name: taker(side) for name, side in sides.items()}, stage.scale.restarts)
