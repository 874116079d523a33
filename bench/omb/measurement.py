"""One workload on one side, once, in the steps of OpenMessaging Benchmark's WorkloadGenerator."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.accounting import cpu_time, cpu_time_of, memory_bytes, touch_pages
from bench.omb.histogram import Latencies
from bench.omb.load_process import Counters, LoadFailed, LoadProcess
from bench.omb.workloads import Options, Scale, Workload
from bench.sides import Side

DRAINED_RECORDS: Final = 1_000
"""A backlog of no more counts as drained, as in OpenMessaging Benchmark."""
_BACKLOG_SECONDS_MAX: Final = 180.0
_RECEIVED_SECONDS_MAX: Final = 60.0
_LOOK_SECONDS: Final = 0.02


@dataclass(slots=True)
class Drain:
    """How a backlog was built without consumers, and read by them while the producers went on."""

    records: int
    """Of the backlog, in all subscriptions."""
    build_seconds: float
    seconds: float
    records_per_second: float
    """That the consumers received meanwhile."""


@dataclass(slots=True)
class Sample:
    seconds: float
    published_per_second: float
    """Records that were acknowledged."""
    received_per_second: float
    publish: Latencies
    delay: Latencies | None
    end_to_end: Latencies | None
    """With a backlog: of what was received after it was drained."""
    cpu_us_per_record: float
    """Of all processes of the side, for each record that was published, with its replicas and its consumption."""
    cpu_percent: float
    """Of one processor."""
    load_percent: float
    """Of one processor, by the load: near 100 it is the limit."""
    memory_bytes: int
    """PSS of all processes of the side, at the end of the measurement."""
    behind_records: int
    """That consumers had not received at the end of the measurement."""
    load_average: float
    """Before it."""
    drain: Drain | None = None

    @property
    def rate(self) -> float:
        """Return how many records a second were published, or received while a backlog was drained."""
        return self.published_per_second if self.drain is None else self.drain.records_per_second


@dataclass(slots=True, frozen=True)
class _Mark:
    """What had been used and counted at a moment."""

    at: float
    cpu: float
    load_cpu: float
    counters: Counters


def measure(side: Side, load: LoadProcess, workload: Workload, scale: Scale, topic: str, options: Options) -> Sample:
    """Run the workload on topics of its own, which are deleted in the end.

    `topic`: what their names begin with. Raises LoadFailed, also if a record failed, was lost or was received twice.
    """
    load_average = os.getloadavg()[0]
    # What the other side has written is not to be written at the cost of this one.
    os.sync()
    touch_pages()
    load.open(side.bootstrap, workload, topic, options)
    load.load(workload.rate_here)
    time.sleep(scale.warm_up_seconds)
    load.reset()
    before = _mark(side, load)
    drain = build_and_drain(load, workload, scale.backlog_bytes(workload)) if workload.has_backlog else None
    time.sleep(scale.seconds)
    after = _mark(side, load)
    latencies = load.latencies()
    memory = memory_bytes(side.sessions)
    load.finish()
    check_received(load, workload)
    load.close()
    if latencies.publish is None:
        raise LoadFailed(f"nothing was acknowledged in {scale.seconds:g} s")
    seconds = after.at - before.at
    published = after.counters.published - before.counters.published
    return Sample(
        seconds=seconds,
        published_per_second=published / seconds,
        received_per_second=(after.counters.received - before.counters.received) / seconds,
        publish=latencies.publish,
        delay=None if workload.is_maximum else latencies.delay,
        end_to_end=latencies.end_to_end,
        cpu_us_per_record=(after.cpu - before.cpu) / published * 1e6,
        cpu_percent=(after.cpu - before.cpu) / seconds * 100,
        load_percent=(after.load_cpu - before.load_cpu) / seconds * 100,
        memory_bytes=memory,
        behind_records=behind(after.counters, workload),
        load_average=load_average,
        drain=drain,
    )


def behind(counters: Counters, workload: Workload) -> int:
    """Return how many records the subscriptions have yet to receive, of those that were acknowledged."""
    return max(0, counters.published * workload.subscriptions - counters.received)


def build_and_drain(load: LoadProcess, workload: Workload, backlog_bytes: int) -> Drain:
    """Stop the consumers until they are so many bytes behind, and time how long they take to catch up.

    Raises LoadFailed: either takes longer than three minutes.
    """
    began = time.perf_counter()
    load.pause()
    counters = _wait_until(load, "built", lambda now: behind(now, workload) * workload.record_bytes >= backlog_bytes)
    built = time.perf_counter()
    records, received = behind(counters, workload), counters.received
    load.resume()
    counters = _wait_until(load, "drained", lambda now: behind(now, workload) <= DRAINED_RECORDS)
    seconds = time.perf_counter() - built
    load.reset_end_to_end()
    return Drain(records, built - began, seconds, (counters.received - received) / seconds)


def check_received(load: LoadProcess, workload: Workload) -> None:
    """Return when each subscription has received each record once.

    Raises LoadFailed: one failed, was lost or came twice.
    """
    expected = load.counters().published * workload.subscriptions
    counters = _wait_until(load, "received", lambda now: now.received >= expected, _RECEIVED_SECONDS_MAX)
    if counters.failed or counters.received > expected:
        raise LoadFailed(
            f"{counters.failed} failed ({counters.first_failure}); {counters.received} of {expected} records received"
        )


def _wait_until(
    load: LoadProcess, what: str, is_so: Callable[[Counters], bool], seconds_max: float = _BACKLOG_SECONDS_MAX
) -> Counters:
    deadline = time.perf_counter() + seconds_max
    while not is_so(counters := load.counters()):
        if time.perf_counter() > deadline:
            raise LoadFailed(f"not {what} within {seconds_max:.0f} s: {counters}")
        time.sleep(_LOOK_SECONDS)
    return counters


def _mark(side: Side, load: LoadProcess) -> _Mark:
    counters = load.counters()
    return _Mark(time.perf_counter(), cpu_time(side.sessions).total, cpu_time_of(load.pid).total, counters)
