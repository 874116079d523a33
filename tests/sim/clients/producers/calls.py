"""What a producer's state machine exchanges with its connections: requests, answers, leaders, delivery reports.

The state machines have no clock, no connection and no encoding: their host gives them the time, hands over what has
arrived, and carries out what `step` returns. A recording of a real client is held against the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]

NO_SEQUENCE = -1
NO_OFFSET = -1
IN_FLIGHT_MAX = 5
"""`max.in.flight.requests.per.connection` of an idempotent producer."""


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


NO_PRODUCER = ProducerIdAndEpoch(-1, -1)


class Leader(NamedTuple):
    node_id: int
    epoch: int


@dataclass(slots=True, frozen=True)
class SentBatch:
    """A batch as it leaves, in one request."""

    partition: TopicPartition
    producer: ProducerIdAndEpoch
    base_sequence: int
    values: tuple[bytes, ...]


@dataclass(slots=True, eq=False)
class ProduceCall:
    """One Produce request to the broker `node_id`. No two batches are of the same partition."""

    node_id: int
    batches: list[SentBatch]


class Answer(NamedTuple):
    """One partition of a Produce response."""

    error_code: int
    base_offset: int = NO_OFFSET
    log_start_offset: int = -1
    current_leader: Leader | None = None
    """KIP-951: set only where the response names it."""


class Report(NamedTuple):
    """The result of one record for the application: `error` is empty for success, whose offset may be unknown (-1)."""

    partition: TopicPartition
    value: bytes
    error: str
    offset: int


@dataclass(slots=True)
class Step:
    """What the state machine asks for. `wake_ms`: when it wants another step at the latest, None for never."""

    calls: list[ProduceCall] = field(default_factory=list)
    connect: list[int] = field(default_factory=list)
    needs_metadata: bool = False
    needs_producer_id: bool = False
    wake_ms: int | None = None


@dataclass(slots=True)
class ProducerConfig:
    """Times in milliseconds. `batch_records_max` stands for batch.size: every record is as large as another."""

    batch_records_max: int = 3
    linger_ms: int = 5
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


class IdempotentProducer(Protocol):
    """What both state machines are. Times are milliseconds of one monotonic clock."""

    reports: list[Report]
    """Taken by its host."""

    @property
    def is_fatal(self) -> bool:
        """Whether the producer has given up for good."""

    @property
    def unreported(self) -> int:
        """Records whose result the application has not received."""

    def append(self, partition: TopicPartition, value: bytes, now_ms: int) -> None:
        """The application sends a record."""

    def learn(self, leaders: Mapping[TopicPartition, Leader | None], now_ms: int) -> None:
        """From Metadata, or from a Produce response; None where a partition has no leader."""

    def producer_id_assigned(self, producer: ProducerIdAndEpoch) -> None: ...

    def connected(self, node_id: int, now_ms: int) -> None: ...

    def disconnected(self, node_id: int, now_ms: int, *, is_timeout: bool) -> None:
        """Every unanswered call to that broker is lost; `is_timeout`: because one had waited too long."""

    def answered(self, call: ProduceCall, answers: Mapping[TopicPartition, Answer], now_ms: int) -> None: ...

    def step(self, now_ms: int) -> Step: ...
