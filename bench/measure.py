"""Takes the figures: both sides in turn, pair after pair."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.accounting import cpu_seconds, memory_bytes
from bench.loads import LOADS, Load, Outcome, ProduceLoad, consume, create_topic, delete_topic
from bench.sides import Side

MEGABYTE = 1_000_000

_WARM_UPS = 2
"""A Java virtual machine has compiled its hot paths after this many runs, and not after one."""


@dataclass(slots=True)
class Measurement:
    """One load on one side, once."""

    records_per_second: float
    megabytes_per_second: float
    cpu_seconds: float
    """Of all processes of that side."""
    cpu_us_per_record: float
    cpu_ms_per_megabyte: float


@dataclass(slots=True)
class Pair:
    ours: Measurement
    theirs: Measurement

    @property
    def ratio(self) -> float:
        """How many times their rate ours is."""
        return self.ours.records_per_second / self.theirs.records_per_second


@dataclass(slots=True)
class LoadResult:
    name: str
    title: str
    settings: dict[str, str | int | float | bool]
    is_one_record_a_request: bool
    pairs: list[Pair]
    memory_bytes_ours: int
    """The sum of PSS after the load."""
    memory_bytes_theirs: int


def compare(ours: Side, theirs: Side, pairs: int, seconds: float, loads: Sequence[Load]) -> list[LoadResult]:
    """Both sides run; each load is warmed up on each, then measured in turn."""
    results = []
    for load in loads:
        print(f"\n{load.title}", flush=True)
        results.append(_compare_load(ours, theirs, load, pairs, seconds))
    return results


def _compare_load(ours: Side, theirs: Side, load: Load, pairs: int, seconds: float) -> LoadResult:
    runs = {side.name: LoadOnSide(side, load, seconds) for side in (ours, theirs)}
    for run in runs.values():
        run.warm_up()
    result = LoadResult(load.name, load.title, load.settings, load.is_one_record_a_request, [], 0, 0)
    for number in range(pairs):
        pair = Pair(runs[ours.name].measure(), runs[theirs.name].measure())
        result.pairs.append(pair)
        print(
            f"  pair {number + 1}/{pairs}: {ours.name} {pair.ours.records_per_second:,.0f}/s, "
            f"{theirs.name} {pair.theirs.records_per_second:,.0f}/s, ratio {pair.ratio:.2f}",
            flush=True,
        )
    result.memory_bytes_ours = memory_bytes(ours.sessions)
    result.memory_bytes_theirs = memory_bytes(theirs.sessions)
    for run in runs.values():
        run.clean_up()
    return result


class LoadOnSide:
    def __init__(self, side: Side, load: Load, seconds: float) -> None:
        self._side = side
        self._load = load
        self._seconds = seconds
        self._topic = f"bench-{load.name}"
        self._records = 0
        """For a consumer: how many are in the topic."""
        create_topic(side.bootstrap, self._topic, load.replication_factor)

    def warm_up(self) -> None:
        """Fill the topic that a consumer reads, or have the broker see some of the load."""
        if not self._load.is_consume:
            for _ in range(_WARM_UPS):
                self._run()
            return
        filler = next(load for load in LOADS if load.name == f"batched-{self._load.record_bytes}")
        self._records = ProduceLoad(self._side.bootstrap, filler).run(self._topic, self._seconds).records
        self._run()

    def measure(self) -> Measurement:
        cpu_before = cpu_seconds(self._side.sessions)
        outcome = self._run()
        # What a broker puts off (flushing answers, compiling) is part of its cost.
        time.sleep(0.2)
        cpu = cpu_seconds(self._side.sessions) - cpu_before
        megabytes = outcome.records * self._load.record_bytes / MEGABYTE
        return Measurement(
            records_per_second=outcome.records / outcome.seconds,
            megabytes_per_second=megabytes / outcome.seconds,
            cpu_seconds=cpu,
            cpu_us_per_record=cpu / outcome.records * 1e6,
            cpu_ms_per_megabyte=cpu / megabytes * 1e3,
        )

    def clean_up(self) -> None:
        delete_topic(self._side.bootstrap, self._topic)

    def _run(self) -> Outcome:
        if not self._load.is_consume:
            return ProduceLoad(self._side.bootstrap, self._load).run(self._topic, self._seconds)
        records, seconds = 0, 0.0
        while seconds < self._seconds:
            outcome = consume(self._side.bootstrap, self._load, self._topic, self._records)
            records += outcome.records
            seconds += outcome.seconds
        return Outcome(records, seconds)
