"""Which producers may begin a transaction in a partition: those that its coordinator has confirmed (KIP-890).

A late batch of a transaction that is over would open another one, which no coordinator knows of and none ends. So the
first batch of a transaction is appended only with the guard that was handed out *before* the coordinator was asked, and
that no marker has voided since (Kafka's VerificationGuard and VerificationStateEntry): a confirmation that arrives
after the end of its transaction is worth nothing. Once the transaction is open in the log its next batches need none.

A guard holds for one state of one log: for what is appended under the leader epoch that it was handed out under, as
long as nothing else decides what the log contains. What a follower gets, a truncation and a new leader epoch void all
guards: the transactions that they were for may have ended meanwhile, under another leader. Therefore the upper half of
a guard is the leader epoch, which only one logstore has, and only once: a guard of another leader, or of the same
leader before, never equals one of this log (an object in Kafka, which does not leave its broker).
"""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.storage.log.state.producer_state import ProducerEntry
from barnabas_logstore.core.storage.log.state.transactions import NO_OFFSET

NO_GUARD: Final = 0
GUARDS_MAX: Final = 20_000
"""Producers that ask and do not append; the oldest are dropped, and have to ask again."""
_NUMBER_BITS: Final = 32
_NUMBER_MAX: Final = 2**_NUMBER_BITS - 1


class _Guarded:
    __slots__ = ("epoch", "guard", "lowest_sequence", "supports_epoch_bump", "wall_ms")

    def __init__(self, guard: int, wall_ms: int, epoch: int, sequence: int, *, supports_epoch_bump: bool) -> None:
        self.guard = guard
        self.wall_ms = wall_ms
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump


class VerificationGuards:
    def __init__(self) -> None:
        self._guarded: dict[int, _Guarded] = {}
        self._of_epoch = 0
        """The upper half of a guard: the leader epoch, counted from 1, so that no guard is NO_GUARD."""
        self._last_number = 0

    def begin_epoch(self, leader_epoch: int) -> None:
        """The log is led under `leader_epoch` from now on."""
        self._guarded.clear()
        self._of_epoch = (leader_epoch + 1) << _NUMBER_BITS

    def void_all(self) -> None:
        """What the log contains was decided elsewhere: by another leader, a truncation, or a full disk."""
        self._guarded.clear()

    def begin(
        self,
        entry: ProducerEntry | None,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        wall_ms: int,
        *,
        supports_epoch_bump: bool,
    ) -> int:
        """Return the guard that a producer's next batch needs once its coordinator has confirmed the transaction;
        NO_GUARD if the transaction is open in the log, whose producer is `entry`. `supports_epoch_bump`: the
        transaction is of version 2.
        """
        if _is_open(entry, producer_epoch):
            return NO_GUARD
        known = self._guarded.get(producer_id)
        if known is None:
            if len(self._guarded) >= GUARDS_MAX:
                del self._guarded[next(iter(self._guarded))]
            self._last_number = self._last_number % _NUMBER_MAX + 1
            guard = self._of_epoch | self._last_number
            known = self._guarded[producer_id] = _Guarded(
                guard, wall_ms, producer_epoch, base_sequence, supports_epoch_bump=supports_epoch_bump
            )
        elif producer_epoch > known.epoch:
            known.epoch, known.lowest_sequence = producer_epoch, base_sequence
        elif producer_epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, base_sequence)
        return known.guard

    def check(self, entry: ProducerEntry | None, header: BatchHeader, guard: int) -> ErrorCode:
        """Return whether a batch of `entry` may be appended: INVALID_TXN_STATE if it is no part of a transaction that
        the coordinator knows of, or would be in the middle of one without being a part of it.
        OUT_OF_ORDER_SEQUENCE_NUMBER: an earlier batch of the transaction has not arrived yet.
        """
        if not header.is_transactional:
            is_open = entry is not None and entry.transaction_first_offset != NO_OFFSET
            return ErrorCode.INVALID_TXN_STATE if is_open else ErrorCode.NONE
        if _is_open(entry, header.producer_epoch):
            return ErrorCode.NONE
        known = self._guarded.get(header.producer_id)
        if known is None or guard != known.guard:
            return ErrorCode.INVALID_TXN_STATE
        if header.base_sequence > known.lowest_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        is_unknown = entry is None or not entry.batches
        if known.supports_epoch_bump and is_unknown and header.base_sequence > 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def void(self, producer_id: int) -> None:
        """A batch or a marker of its transaction is in the log."""
        self._guarded.pop(producer_id, None)

    def remove_expired(self, wall_ms: int, expiration_ms: int) -> None:
        expired = [each for each, guarded in self._guarded.items() if guarded.wall_ms <= wall_ms - expiration_ms]
        for producer_id in expired:
            del self._guarded[producer_id]


def _is_open(entry: ProducerEntry | None, producer_epoch: int) -> bool:
    return entry is not None and entry.transaction_first_offset != NO_OFFSET and entry.producer_epoch == producer_epoch
