"""What an idempotent producer sent behind a batch that it has to send again.

Kafka's connections are muted until a request is answered, and end with the broker that they lead to: nothing is written
behind a batch that was lost or refused, before its producer has heard of that. Here connections outlive leaders, and
requests in flight overlap: what comes in behind such a batch could find another leader, or enough replicas again, and
would skip a sequence. librdkafka takes OUT_OF_ORDER_SEQUENCE_NUMBER for a gap, begins a new epoch and sends again under
it what is in the log already: a duplicate of ours. And a leader that never heard of the producer would even write it.

So once a batch is answered with one of LOSSES, later sequences of its producer are answered NOT_LEADER_OR_FOLLOWER on
this connection, and not written: until the batch itself comes again, or the producer begins another epoch, or
HELD_BACK_MS after that answer has left. By then it has heard of it, and what it sends is meant: the batch may have been
written through another connection.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Buffer

if TYPE_CHECKING:
    from services.gateway.core.appends import PartitionKey
    from services.gateway.core.slots import Slot

HELD_BACK_MS: Final = 1_000
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
"""Id, epoch and first sequence in the header of a record batch (magic 2)."""
_PRODUCER_POSITION: Final = 43
_NO_PRODUCER_ID: Final = -1
_SEQUENCES: Final = 2**31


class _Sequence(NamedTuple):
    producer_id: int
    producer_epoch: int
    base_sequence: int


class _Lost:
    """The first batch that has to come again."""

    __slots__ = ("over_ms", "sequence", "slot")

    def __init__(self, sequence: _Sequence, slot: Slot) -> None:
        self.sequence = sequence
        self.slot = slot
        """The request whose answer says so."""
        self.over_ms = -1
        """Set when that answer was seen to have left."""


class LostSequences:
    """Of one connection; made with the first loss."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[PartitionKey, _Lost] = {}

    def lost(self, key: PartitionKey, records: Buffer, slot: Slot) -> None:
        """A batch of this request is answered with one of LOSSES."""
        sequence = _sequence_of(records)
        if sequence is None:
            return
        first = self._first.get(key)
        if first is None or not _is_behind(sequence, first.sequence):
            self._first[key] = _Lost(sequence, slot)

    def hold_back(self, key: PartitionKey, records: Buffer, now_ms: int) -> bool:
        """Whether this batch was sent behind a lost one, and may not be written."""
        first = self._first.get(key)
        if first is None:
            return False
        sequence = _sequence_of(records)
        if sequence is not None and _is_behind(sequence, first.sequence):
            if first.over_ms < 0 and first.slot not in first.slot.connection.slots:
                first.over_ms = now_ms + HELD_BACK_MS
            if first.over_ms < 0 or now_ms < first.over_ms:
                return True
        del self._first[key]
        return False


def _is_behind(sequence: _Sequence, first: _Sequence) -> bool:
    """Of the same producer and epoch, and later; sequences wrap from 2^31-1 to 0."""
    distance = (sequence.base_sequence - first.base_sequence) % _SEQUENCES
    return sequence[:2] == first[:2] and 0 < distance < _SEQUENCES // 2


def _sequence_of(records: Buffer) -> _Sequence | None:
    """None for a producer that is not idempotent, and for what is no whole batch."""
    if len(records) < _PRODUCER_POSITION + _PRODUCER.size:
        return None
    sequence = _Sequence(*_PRODUCER.unpack_from(records, _PRODUCER_POSITION))
    return None if sequence.producer_id == _NO_PRODUCER_ID else sequence
