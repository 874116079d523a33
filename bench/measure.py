"""One of the loads on one side, again and again."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.accounting import TOUCHED_BYTES, cpu_time, touch_pages
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
    system_cpu_seconds: float
    """What of it was the kernel's."""
    cpu_us_per_record: float
    cpu_ms_per_megabyte: float


class LoadOnSide:
    def __init__(
        self, side: Side, load: Load, seconds: float, touched_bytes: int = TOUCHED_BYTES, warm_ups: int = _WARM_UPS
    ) -> None:
        self._side = side
        self._load = load
        self._seconds = seconds
        self._touched_bytes = touched_bytes
        self._warm_ups = warm_ups
        self._topic = f"bench-{load.name}"
        self._records = 0
        """For a consumer: how many are in the topic."""
        self._create_topic()

    def _create_topic(self) -> None:
        create_topic(self._side.bootstrap, self._topic, self._load.replication_factor)

    def warm_up(self) -> None:
        """Fill the topic that a consumer reads, or have the broker see some of the load."""
        if not self._load.is_consume:
            for _ in range(self._warm_ups):
                self._run()
            return
        filler = next(load for load in LOADS if load.name == f"batched-{self._load.record_bytes}")
        self._records = ProduceLoad(self._side.bootstrap, filler).run(self._topic, self._seconds).records
        self._run()

    def measure(self) -> Measurement:
        touch_pages(self._touched_bytes)
        cpu_before = cpu_time(self._side.sessions)
        outcome = self._run()
        # What a broker puts off (flushing answers, compiling) is part of its cost.
        time.sleep(0.2)
        cpu = cpu_time(self._side.sessions).since(cpu_before)
        megabytes = outcome.records * self._load.record_bytes / MEGABYTE
        return Measurement(
            records_per_second=outcome.records / outcome.seconds,
            megabytes_per_second=megabytes / outcome.seconds,
            cpu_seconds=cpu.total,
            system_cpu_seconds=cpu.system,
            cpu_us_per_record=cpu.total / outcome.records * 1e6,
            cpu_ms_per_megabyte=cpu.total / megabytes * 1e3,
        )

    def clean_up(self) -> None:
        delete_topic(self._side.bootstrap, self._topic)

    def empty(self) -> None:
        """Delete what was produced so far: a side that keeps everything in memory would run out of it."""
        self.clean_up()
        self._create_topic()

    def _run(self) -> Outcome:
        if not self._load.is_consume:
            return ProduceLoad(self._side.bootstrap, self._load).run(self._topic, self._seconds)
        records, seconds = 0, 0.0
        while seconds < self._seconds:
            outcome = consume(self._side.bootstrap, self._load, self._topic, self._records)
            records += outcome.records
            seconds += outcome.seconds
        return Outcome(records, seconds)
