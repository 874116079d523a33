"""All workloads on both sides in turn, by one load process, which is restarted if it fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException

from bench.loads import delete_topic
from bench.omb.load_process import LoadFailed, LoadProcess
from bench.omb.measurement import Sample, measure
from bench.omb.results import WorkloadResult
from bench.omb.workloads import Options, Scale, workload_named
from bench.sides import Side

WARM_UP: Final = workload_named("max-rate-1-topic-16-partitions-1kb")
"""What virtual machines compile their hot paths with, before the first workload."""


class Turns:
    """Measures the sides, which run. The load starts on the processors of the thread that enters the context."""

    def __init__(
        self, ours: Side, theirs: Side, scale: Scale, options: Options, directory: Path, say: Callable[[str], None]
    ) -> None:
        """`directory`: for what the load logs."""
        self._ours = ours
        self._theirs = theirs
        self._scale = scale
        self._options = options
        self._directory = directory
        self._say = say
        self._topics = 0
        self._load: LoadProcess

    def __enter__(self) -> Self:
        self._load = LoadProcess(self._directory)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._load.stop()

    @property
    def java_version(self) -> str:
        return self._load.java_version()

    def warm_up(self) -> None:
        """Load each side before the first workload. Raises LoadFailed."""
        for side in (self._ours, self._theirs):
            self._say(f"warming up {side.name}")
            self._load.open(side.bootstrap, WARM_UP, self._next_topic(), self._options)
            self._load.load(WARM_UP.rate_here)
            time.sleep(self._scale.first_warm_up_seconds)
            self._load.finish()
            self._load.close()

    def take(self, results: Iterable[WorkloadResult]) -> None:
        """Add the samples of all turns to the results; a turn in which either side fails is left out for both."""
        for result in results:
            self._say(result.workload.name)
            for turn in range(self._scale.turns):
                # Neither side always comes after the other.
                order = (self._ours, self._theirs) if turn % 2 == 0 else (self._theirs, self._ours)
                taken = {side.name: self._measure(side, result) for side in order}
                ours, theirs = taken[self._ours.name], taken[self._theirs.name]
                if ours is not None and theirs is not None:
                    result.ours.append(ours)
                    result.theirs.append(theirs)

    def _measure(self, side: Side, result: WorkloadResult) -> Sample | None:
        topic = self._next_topic()
        try:
            sample = measure(side, self._load, result.workload, self._scale, topic, self._options)
        except LoadFailed as error:
            failure = f"{side.name}: {error}"
            self._say(f"  failed: {failure}")
            result.failures.append(failure)
            self._restart(side, [f"{topic}-{number}" for number in range(result.workload.topics)])
            return None
        self._say(f"  {side.name}: {in_short(sample)}")
        return sample

    def _restart(self, side: Side, topics: list[str]) -> None:
        self._load.stop()
        for topic in topics:
            # It may not have come to be.
            with contextlib.suppress(KafkaException):
                delete_topic(side.bootstrap, topic)
        self._load = LoadProcess(self._directory)

    def _next_topic(self) -> str:
        self._topics += 1
        return f"omb-{self._topics}"


def in_short(sample: Sample) -> str:
    """Return the figures of a sample in a line, for who waits for the next one."""
    publish, end_to_end = sample.publish, sample.end_to_end
    parts = [
        f"{sample.published_per_second:,.0f}/s published, {sample.received_per_second:,.0f}/s received",
        f"publish {publish.p50_ms:.2f} / {publish.p99_ms:.2f} / {publish.p999_ms:.2f} ms",
    ]
    if end_to_end is not None:
        parts.append(f"end to end {end_to_end.p50_ms:.2f} / {end_to_end.p99_ms:.2f} / {end_to_end.p999_ms:.2f} ms")
    if sample.drain is not None:
        parts.append(f"{sample.drain.records:,} drained in {sample.drain.seconds:.2f} s")
    parts.append(f"{sample.cpu_us_per_record:.1f} µs CPU a record, {sample.memory_bytes / 1e6:,.0f} MB")
    parts.append(f"side {sample.cpu_percent:.0f} %, load {sample.load_percent:.0f} % of a processor")
    return "; ".join(parts)
