"""The workloads that OpenMessaging Benchmark documents, what of each is smaller here, and how its files are read.

A name is that of the file in its `workloads` folder, without ".yaml". Records are random bytes instead of its payload
files: nothing is compressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAXIMUM: Final = 0
"""A rate: as fast as the producers can."""
_MAXIMUM_MIN: Final = 10_000_000
"""From here on OpenMessaging Benchmark's own rate is one that nothing reaches."""
FIXED_RATE_MAX: Final = 20_000
"""Records a second: what three brokers on one processor keep up with on both sides."""
GIGABYTE: Final = 1 << 30
"""As OpenMessaging Benchmark has it."""


@dataclass(slots=True, frozen=True)
class Workload:
    """One of OpenMessaging Benchmark's workload files."""

    name: str
    topics: int
    partitions: int
    """Of each topic."""
    record_bytes: int
    producer_rate: int
    """Records a second of all producers; `MAXIMUM`, or a rate beyond all reach, for as many as they can."""
    producers: int = 1
    """Of each topic."""
    subscriptions: int = 1
    """Of each topic."""
    consumers: int = 1
    """Of each subscription."""
    backlog_gigabytes: int = 0
    minutes: int = 5

    def __post_init__(self) -> None:
        if self.has_backlog and self.is_maximum:
            raise ValueError(f"{self.name}: a backlog needs a rate at which it is built")

    @property
    def is_maximum(self) -> bool:
        return self.producer_rate == MAXIMUM or self.producer_rate >= _MAXIMUM_MIN

    @property
    def has_backlog(self) -> bool:
        return self.backlog_gigabytes > 0

    @property
    def rate_here(self) -> int:
        """Records a second on two processors; `MAXIMUM` for as many as the producers can."""
        return MAXIMUM if self.is_maximum else min(self.producer_rate, FIXED_RATE_MAX)


@dataclass(slots=True, frozen=True)
class Scale:
    """How much of a workload is run."""

    seconds: float
    """Of each measurement; with a backlog, of what follows when that is drained."""
    warm_up_seconds: float
    """Of the load before each measurement."""
    first_warm_up_seconds: float
    """Of each side, before the first workload."""
    backlog_bytes_max: int
    turns: int

    def backlog_bytes(self, workload: Workload) -> int:
        return min(workload.backlog_gigabytes * GIGABYTE, self.backlog_bytes_max)

    def in_words(self, workload: Workload) -> str:
        """Say what of the workload's file is smaller here."""
        parts = [f"{self.seconds:g} s of {workload.minutes} min"]
        if not workload.is_maximum and workload.rate_here != workload.producer_rate:
            parts.append(f"{workload.rate_here:,}/s of {workload.producer_rate:,}/s")
        if workload.has_backlog:
            parts.append(f"{self.backlog_bytes(workload) / 1e6:,.0f} MB of {workload.backlog_gigabytes} GB")
        return ", ".join(parts)


@dataclass(slots=True, frozen=True)
class Options:
    """What holds for all workloads."""

    replicas: int
    in_flight: int
    """Requests of a producer on a connection."""


WHOLE: Final = Scale(15.0, 5.0, 45.0, 400_000_000, 5)
QUICK: Final = Scale(3.0, 1.5, 15.0, 60_000_000, 1)


WORKLOADS: Final = (
    Workload("simple-workload", 1, 10, 1024, 10_000),
    Workload("1-topic-1-partition-1kb", 1, 1, 1024, 50_000, minutes=15),
    Workload("1-topic-1-partition-100b", 1, 1, 100, 50_000, minutes=15),
    Workload("1-topic-16-partitions-1kb", 1, 16, 1024, 50_000, minutes=15),
    Workload("backlog-1-topic-1-partition-1kb", 1, 1, 1024, 100_000, backlog_gigabytes=100),
    Workload("backlog-1-topic-16-partitions-1kb", 1, 16, 1024, 100_000, backlog_gigabytes=100),
    Workload("max-rate-1-topic-1-partition-1p-1c-1kb", 1, 1, 1024, 10_000_000),
    Workload("max-rate-1-topic-1-partition-1p-1c-100b", 1, 1, 100, 10_000_000),
    Workload("1-topic-3-partition-100b-3producers", 1, 3, 100, MAXIMUM, producers=3, minutes=15),
    Workload("max-rate-1-topic-16-partitions-1kb", 1, 16, 1024, MAXIMUM),
    Workload("max-rate-1-topic-16-partitions-100b", 1, 16, 100, MAXIMUM),
    Workload("max-rate-1-topic-100-partitions-1kb", 1, 100, 1024, MAXIMUM),
    Workload("max-rate-1-topic-100-partitions-100b", 1, 100, 100, MAXIMUM),
)
"""The thirteen of its documentation, in that order."""

_FIELDS: Final = {
    "topics": "topics",
    "partitionsPerTopic": "partitions",
    "messageSize": "record_bytes",
    "producerRate": "producer_rate",
    "producersPerTopic": "producers",
    "subscriptionsPerTopic": "subscriptions",
    "consumerPerSubscription": "consumers",
    "consumerBacklogSizeGB": "backlog_gigabytes",
    "testDurationMinutes": "minutes",
}


def parse_workload(name: str, text: str) -> Workload:
    """Read a workload file, which is flat YAML; what has no bearing on the load is left out.

    Raises ValueError: a line is no key and value, a key that a load needs is missing, or its value is no whole number.
    """
    values = dict(_key_and_value(line) for line in text.splitlines() if line.split("#")[0].strip() not in ("", "---"))
    missing = [key for key in _FIELDS if key not in values]
    if missing:
        raise ValueError(f"{name}: without {', '.join(missing)}")
    return Workload(name, **_numbers(name, values))


def _key_and_value(line: str) -> tuple[str, str]:
    key, colon, value = line.split("#")[0].partition(":")
    if not colon:
        raise ValueError(f"no key and value: {line!r}")
    return key.strip(), value.strip().strip("\"'")


def _numbers(name: str, values: Mapping[str, str]) -> dict[str, int]:
    try:
        return {field: int(values[key]) for key, field in _FIELDS.items()}
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def workload_named(name: str) -> Workload:
    """Raises KeyError: no documented workload has this name."""
    return {each.name: each for each in WORKLOADS}[name]
