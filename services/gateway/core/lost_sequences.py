"""What an idempotent producer sent behind a batch that it has to send again.

A leader that dies takes its clients' connections with it, and with them whatever they had sent behind the batch that
was lost; one that is deposed refuses that too. Here a connection outlives leaders, and what comes in on it a moment
later would go to the next one, which may lack the lost batch and says OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka takes
that for a gap, begins a new epoch and sends again under it what is in the log already: a duplicate of ours.

So once a batch is answered with NOT_LEADER_OR_FOLLOWER or REQUEST_TIMED_OUT, later sequences of its producer are not
written on this connection, until the batch itself comes again, the producer begins another epoch, or the producer has
had HELD_BACK_MS to hear of it: by then it may have sent the batch again elsewhere and be back.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Buffer

if TYPE_CHECKING:
    from services.gateway.core.appends import PartitionKey

HELD_BACK_MS: Final = 1_000
LOSSES: Final = frozenset({int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.REQUEST_TIMED_OUT)})
"""Answers after which a producer sends the same batch again, to another leader perhaps."""

_PRODUCER = struct.Struct(">qhi")
"""Id, epoch and first sequence in the header of a record batch (magic 2)."""
_PRODUCER_POSITION: Final = 43
_NO_PRODUCER_ID: Final = -1
_SEQUENCES: Final = 2**31


class _Sequence(NamedTuple):
    producer_id: int
    producer_epoch: int
    base_sequence: int


class LostSequences:
    """Of one connection; made with the first loss."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: dict[PartitionKey, tuple[_Sequence, int]] = {}
        """The first batch that was lost, and until when those behind it are held back."""

    def lost(self, key: PartitionKey, records: Buffer, now_ms: int) -> None:
        """A batch was answered with one of LOSSES."""
        sequence = _sequence_of(records)
        if sequence is None:
            return
        first = self._first.get(key)
        if first is None or now_ms >= first[1] or not _is_behind(sequence, first[0]):
            self._first[key] = (sequence, now_ms + HELD_BACK_MS)

    def hold_back(self, key: PartitionKey, records: Buffer, now_ms: int) -> bool:
        """Whether this batch was sent behind a lost one, and may not be written."""
        first = self._first.get(key)
        if first is None:
            return False
        sequence = _sequence_of(records)
        if now_ms < first[1] and sequence is not None and _is_behind(sequence, first[0]):
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
