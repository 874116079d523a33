"""The appends of one connection to one partition, and the sequences that its idempotent producers may not have written.

One state machine for each append; `PartitionAppends` owns it from the request to its decision:

    submitted ──── may go ────> in flight ── answered, acks 0 or 1 ──────────> decided
        │                        ^   │  │
        │ no route, no credit,   │   │  └─ an error, or the stream is lost ──> decided: failed
        │ others undecided       │   │
        v                        │   └─ acks=all, not committed ──> parked ──> decided: committed, or failed
     waiting ──── may go ────────┘                                   │  ^
        │                                                            └──┘ its leader lost the partition, and the
        └─ held back, given up, withdrawn ──> decided: failed            next one holds the append

*Undecided* is what is in flight or parked. While an append is undecided, no other of the partition goes to another
leader, or to the same one under another epoch: the same guarantee as Kafka's muted connection gives its clients
(`SocketServer`), and what their recovery relies on. Nor does anything follow a producer's first batch (sequence 0)
before that is decided: a leader that does not know the producer would accept any sequence, and write a gap.

A batch that fails with one of LOSSES is sent again by its producer. Until then, a *fence* answers later sequences of
that producer with NOT_LEADER_OR_FOLLOWER, and they are not written: they could meet another leader, or enough replicas
again, and skip a sequence. Producers have at most IN_FLIGHT_MAX requests in flight on a connection (Java, librdkafka
and franz-go limit idempotent producers to that), so a request that arrives that many behind the failed one was sent in
knowledge of its answer. The fence ends with that request, with the failed batch, with another producer epoch, or
HELD_BACK_MS after the answer; requests from before that stay fenced. What a fence refuses has to be sent again as well,
and raises its own fence: the request behind it may be the one that ends the first fence.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Final, NamedTuple, Protocol, TypeAlias

from barnabas.channel.messages import Append, AppendResult
from barnabas.cluster.messages import NO_LEADER
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import PartitionProduceResponse
from barnabas.wire.primitives import Buffer
from barnabas_gateway.core.backends.credited_stream import CreditedStream
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.model.request_context import RequestContext
from barnabas_gateway.core.timing.request_timing import RequestTiming

PartitionKey: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""

UNSENT = 0
IN_FLIGHT_MAX: Final = 5
HELD_BACK_MS: Final = 5_000
PRODUCERS_FENCED_MAX: Final = 8
"""The most producers of one connection and partition; a client has one."""
LOSSES: Final = frozenset(
    {
        int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        int(ErrorCode.REQUEST_TIMED_OUT),
        int(ErrorCode.NOT_ENOUGH_REPLICAS),
        int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        int(ErrorCode.KAFKA_STORAGE_ERROR),
        int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
)
"""Answers after which a producer sends the same batch again."""

_PRODUCER = struct.Struct(">qhi")
"""Layout of id, epoch and first sequence in the header of a record batch (magic 2)."""
_PRODUCER_POSITION: Final = 43
_SEQUENCE_POSITION: Final = 53
_SEQUENCE_END: Final = 57
_FIRST_SEQUENCE: Final = b"\0\0\0\0"
_NO_PRODUCER_ID: Final = -1
_SEQUENCES: Final = 2**31


class AppendOwner(Protocol):
    """The request that an append belongs to."""

    @property
    def acks(self) -> int: ...

    @property
    def position(self) -> int:
        """Its number among the produce requests of its connection, from 1."""

    @property
    def timing(self) -> RequestTiming | None: ...

    @property
    def transactional_id(self) -> str | None: ...

    @property
    def reports_abortable(self) -> bool:
        """Whether its client knows TRANSACTION_ABORTABLE."""

    def append_answered(self, append: PendingAppend, result: AppendResult) -> None:
        """A leader's result, or an error of the router instead."""

    def failed(self, error: Exception) -> None:
        """A result has met an unexpected exception."""


class AppendingConnection(Protocol):
    """The connection that appends come from."""

    append_orders: dict[PartitionKey, PartitionAppends]
    fences: deque[tuple[Fence, PartitionAppends]]

    @property
    def context(self) -> RequestContext: ...

    @property
    def produce_answered_ms(self) -> int:
        """When its last produce request was answered."""

    @property
    def produce_answers(self) -> int:
        """How many of its produce requests have been answered."""

    def hold_requests(self) -> None:
        """Start no further request until `one_waits_less` has been called as many times."""

    def one_waits_less(self) -> None: ...

    def failed(self, error: Exception) -> None:
        """What it has apart from its requests has met an unexpected exception."""


class AppendScheduler(Protocol):
    """The router, which sends the appends of all connections."""

    @property
    def clock(self) -> Clock: ...

    def give_up_routing(self, order: PartitionAppends) -> None:
        """The leader's stream did not come back in time."""


class PendingAppend(Append):
    """One partition of a Produce: the message to the logstore, and where its result belongs."""

    __slots__ = (
        "is_leader_lost",
        "is_parked",
        "is_undecided",
        "key",
        "leader_id",
        "order",
        "produce",
        "record_epoch",
        "required_offset",
        "response",
    )

    def __init__(
        self, produce: AppendOwner, key: PartitionKey, records: Buffer, response: PartitionProduceResponse
    ) -> None:
        self.request_id = UNSENT
        self.topic_id, self.partition = self.key = key
        self.leader_epoch = -1
        self.acks = produce.acks
        self.records = records
        self.verification_guard = 0
        self.supports_epoch_bump = False
        self.produce: AppendOwner | None = produce
        """None once the request was answered without it."""
        self.response = response
        self.order: PartitionAppends | None = None
        self.leader_id = NO_LEADER
        self.required_offset: int = -1
        self.record_epoch: int = -1
        """The leader epoch of its last record in the log; `leader_epoch` follows the leader that it waits for."""
        self.is_parked = False
        self.is_leader_lost = False
        """Whether its leader was lost and the next one was not known at the last look."""
        self.is_undecided = False

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class _Sequence(NamedTuple):
    producer_id: int
    producer_epoch: int
    base_sequence: int

    def is_behind(self, other: _Sequence) -> bool:
        """Whether it is a later append of the same producer and epoch; sequences wrap from 2^31-1 to 0."""
        distance = (self.base_sequence - other.base_sequence) % _SEQUENCES
        return self[:2] == other[:2] and 0 < distance < _SEQUENCES // 2


class Fence:
    """The first batch of a producer that must be sent again. It references nothing of the failed request."""

    __slots__ = ("end_position", "position", "sequence", "until_ms")

    def __init__(self, sequence: _Sequence, position: int) -> None:
        self.sequence = sequence
        self.position = position
        """The number of the failed request among the produce requests of its connection, as all positions here."""
        self.end_position = -1
        """The position of the first request that the producer sent in knowledge of the failure, once it is known."""
        self.until_ms = -1
        """Set when the answer of the failed request was seen to have left."""

    def holds(self, sequence: _Sequence, position: int, connection: AppendingConnection, now_ms: int) -> bool:
        """Whether the request at `position` was sent without knowledge of the failure, and contains a later batch."""
        if 0 <= self.end_position <= position:
            return False
        if not sequence.is_behind(self.sequence):
            if position > self.position:
                self.end_position = position
            return False
        if self.position > connection.produce_answers:
            return True
        if self.until_ms < 0:
            self.until_ms = connection.produce_answered_ms + HELD_BACK_MS
        if now_ms >= self.until_ms:
            self.end_position = position
            return False
        return position - self.position < IN_FLIGHT_MAX

    def is_over(self, connection: AppendingConnection) -> bool:
        """Whether every request that it could fence has been answered."""
        return self.position + IN_FLIGHT_MAX - 1 <= connection.produce_answers


class PartitionAppends:
    """It exists as long as any append is undecided, waits, or is fenced."""

    __slots__ = (
        "connection",
        "deadline_bucket",
        "fences",
        "first_is_undecided",
        "key",
        "leader_epoch",
        "leader_id",
        "line",
        "scheduler",
        "stream",
        "undecided",
        "unverified",
        "verifications",
        "waiting",
    )

    def __init__(self, scheduler: AppendScheduler, connection: AppendingConnection, key: PartitionKey) -> None:
        self.scheduler = scheduler
        self.connection = connection
        self.key = key
        self.undecided = 0
        """Appends in flight or parked, all under the leader and epoch below."""
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.first_is_undecided = False
        """Whether they include the first batch of a producer."""
        self.waiting: deque[PendingAppend] | None = None
        self.stream: AppendStream | None = None
        """The stream for whose credit the first of `waiting` waits."""
        self.line: AppendStream | None = None
        """The stream in whose queue this is."""
        self.fences: dict[int, list[Fence]] | None = None
        """Fences by producer id, in the order in which they were raised."""
        self.deadline_bucket = -1
        """Set while the leader's stream is down."""
        self.unverified: list[PendingAppend] = []
        """Appends that the leader has sent back until the coordinator of their transaction confirms it: they are to be
        sent before those that wait.
        """
        self.verifications = 0
        """Those of them that the coordinator has not answered yet."""

    def failed(self, error: Exception) -> None:
        """The order itself is in doubt: close its connection."""
        self.connection.failed(error)

    def expire(self, now_ms: int) -> None:
        self.scheduler.give_up_routing(self)

    def is_idle(self) -> bool:
        return not (self.undecided or self.waiting or self.fences or self.unverified)

    def may_send_under(self, leader_id: int, leader_epoch: int) -> bool:
        """Whether another append may be sent there while the undecided ones are outstanding."""
        if self.unverified:
            return False
        return not self.undecided or (
            self.leader_epoch == leader_epoch and self.leader_id == leader_id and not self.first_is_undecided
        )

    def sent(self, append: PendingAppend, leader_id: int, leader_epoch: int) -> None:
        self.undecided += 1
        append.is_undecided = True
        if append.verification_guard and (append.leader_id, append.leader_epoch) != (leader_id, leader_epoch):
            # Another leader knows nothing of it.
            append.verification_guard = 0
        self.leader_id = append.leader_id = leader_id
        self.leader_epoch = append.leader_epoch = leader_epoch
        if append.records[_SEQUENCE_POSITION:_SEQUENCE_END] == _FIRST_SEQUENCE:
            self.first_is_undecided = True

    def decided(self, append: PendingAppend) -> None:
        """An append is not in flight or parked any more."""
        append.is_undecided = False
        self.undecided -= 1
        if self.undecided == 0:
            self.first_is_undecided = False

    # --- transactions ---

    def sent_back(self, append: PendingAppend, guard: int) -> None:
        """The leader wants the transaction of this append confirmed first."""
        append.verification_guard = guard
        append.request_id = UNSENT
        if self.waiting is None:
            self.waiting = deque()
        self.unverified.append(append)
        self.verifications += 1
        self.connection.hold_requests()

    def verified(self, append: PendingAppend, *, is_confirmed: bool) -> None:
        """The coordinator has answered; what it has not confirmed has failed."""
        self.verifications -= 1
        if not is_confirmed:
            self.unverified.remove(append)
            self.connection.one_waits_less()

    def resume(self) -> bool:
        """Let what is confirmed wait before everything else. Return False while that is not known of all."""
        if self.verifications or self.undecided:
            return False
        if self.waiting is None:
            self.waiting = deque()
        for append in reversed(self.unverified):
            if append.produce is None:
                # Its request was answered without it.
                self.connection.one_waits_less()
            else:
                self.waiting.appendleft(append)
        self.unverified.clear()
        return True

    # --- fences ---

    def raise_fence(self, append: PendingAppend, position: int) -> None:
        """`append`, of the request at `position`, is answered with one of LOSSES."""
        self._forget_fences()
        sequence = _sequence_of(append.records)
        if sequence is None:
            return
        if self.fences is None:
            self.fences = {}
        fences = self.fences.get(sequence.producer_id)
        if fences is None:
            if len(self.fences) == PRODUCERS_FENCED_MAX:
                del self.fences[next(iter(self.fences))]
            fences = self.fences[sequence.producer_id] = []
        fence = Fence(sequence, position)
        fences.append(fence)
        self.connection.fences.append((fence, self))

    def holds_back(self, append: PendingAppend, position: int) -> bool:
        """Whether `append`, of the request at `position`, was sent behind a batch that must be sent again, and may not
        be written.
        """
        self._forget_fences()
        if not self.fences:
            return False
        sequence = _sequence_of(append.records)
        if sequence is None:
            return False
        fences = self.fences.get(sequence.producer_id, ())
        now_ms = self.scheduler.clock.now_ms
        is_held_back = False
        for fence in fences:
            # Every fence has to see the sequence, which may end it.
            is_held_back |= fence.holds(sequence, position, self.connection, now_ms)
        return is_held_back

    def _forget_fences(self) -> None:
        """Remove the fences of the connection that are over, of any partition."""
        connection = self.connection
        fences = connection.fences
        while fences and fences[0][0].is_over(connection):
            fence, order = fences.popleft()
            of_producer = order.fences.get(fence.sequence.producer_id) if order.fences is not None else None
            if order.fences is None or not of_producer or of_producer[0] is not fence:
                continue
            del of_producer[0]
            if not of_producer:
                del order.fences[fence.sequence.producer_id]
                if order is not self and order.is_idle() and connection.append_orders.get(order.key) is order:
                    del connection.append_orders[order.key]


AppendStream: TypeAlias = CreditedStream[PartitionAppends, PendingAppend]
"""The queue of one logstore. Each connection and partition is in it once, however many of its appends wait."""


def _sequence_of(records: Buffer) -> _Sequence | None:
    """Return None for a producer that is not idempotent, and for an incomplete batch."""
    if len(records) < _SEQUENCE_END:
        return None
    sequence = _Sequence(*_PRODUCER.unpack_from(records, _PRODUCER_POSITION))
    return None if sequence.producer_id == _NO_PRODUCER_ID else sequence


def producer_of(records: Buffer) -> tuple[int, int]:
    """Return the id and the epoch of the producer of a complete batch."""
    producer_id, producer_epoch, _ = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
    return producer_id, producer_epoch
