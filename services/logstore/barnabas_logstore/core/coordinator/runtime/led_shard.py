"""A shard and its log: the records of a turn, and the answers and effects that wait for their commit."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final, Generic, TypeAlias

from barnabas.channel.messages import GroupAnswer
from barnabas.containment import Place
from barnabas.ports.compression import Decompress
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.markers import ProducerInTransaction, TransactionEnd
from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.runtime.coordinator_log import CoordinatedLog
from barnabas_logstore.core.coordinator.runtime.loading import LogLoader
from barnabas_logstore.core.coordinator.runtime.shard import (
    BATCH_OVERHEAD_BYTES,
    NOT_WRITTEN,
    Change,
    Effect,
    Result,
    S,
    ShardKind,
    StreamAnswer,
    do_all,
    record_bytes,
)

WAITING_BYTES_MAX: Final = 16 << 20
"""Bytes of the answers that wait. While nothing is committed, clients give up and retry, and each time leave one
here.
"""
_WAITING_OVERHEAD_BYTES: Final = 200
"""An estimate of what an answer takes besides its body."""

Waiting: TypeAlias = StreamAnswer | Effect


class LedShard(Result, Generic[S]):
    """One partition under one leader epoch, loading or active.

    The records of a turn are appended as one batch; answers wait for what has been put before them. If the append is
    refused under the leading epoch, or lost, all that was replayed is void: `append` returns that, and `lose` fails
    every call that waits.
    """

    def __init__(
        self,
        partition: int,
        leader_epoch: int,
        log: CoordinatedLog,
        answers: list[StreamAnswer],
        written: dict[LedShard[S], None],
    ) -> None:
        """`answers` takes what need not wait (any more), `written` each that has something to append.

        What is already in the log has to be committed first, because answers depend on what is read from it.
        """
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.log = log
        self.answers = answers
        self.shard: S
        self.loader: LogLoader | None
        """None: the log has been read, and calls are served."""
        self.unreadable_records = 0
        """Records of the log that could not be read: their content is unknown."""
        self._written = written
        self._records: list[Record] = []
        self._is_lost = False
        self._bytes = BATCH_OVERHEAD_BYTES
        self._waiting: deque[tuple[int, list[Waiting]]] = deque()
        """By the high watermark that they wait for."""
        self._waiting_now: list[Waiting] = []
        """For what this turn puts."""
        self._waiting_bytes = 0
        """Bytes of the answers in both."""
        self._required_offset = log.end_offset()
        self._high_watermark = log.high_watermark()

    # --- loading, and the end -----------------------------------------------------------------------------------------

    def open(self, kind: ShardKind[S], decompress: Decompress) -> None:
        """Begin to load a shard of that kind; nothing of its log has been read yet."""
        store = kind.new_store()
        self.shard = kind.open(self.partition, self.leader_epoch, store, self)
        self.loader = LogLoader(kind.decode, store, decompress, self.log.end_offset(), self.shard.loaded)

    def load(self) -> bool:
        """Process a piece of the log, or request more of it. Return whether it has been read completely."""
        loader = self.loader
        assert loader is not None
        if not loader.advance(self.log, self.leader_epoch):
            return False
        self.loader = None
        self.unreadable_records = loader.unreadable_records
        return True

    def lose(self) -> None:
        """The epoch is over here, or the state is lost: what has been put may be kept or lost, callers that wait have
        to find the coordinator again, and nothing happens any more.
        """
        do_all([self._lose_waiting, self.shard.stop])

    def _lose_waiting(self) -> None:
        lost = [each for _, several in self._waiting for each in several] + self._waiting_now
        self._waiting.clear()
        self._waiting_now = []
        self._waiting_bytes = 0
        self._records, self._bytes = [], BATCH_OVERHEAD_BYTES
        do_all([partial(self._lose, each) for each in lost])

    def _lose(self, waiting: Waiting) -> None:
        if isinstance(waiting, Effect):
            waiting.lost()
        else:
            self.answers.append((waiting[0], GroupAnswer(waiting[1].request_id, ErrorCode.NOT_COORDINATOR)))

    def state_in_doubt(self, place: Place, error: Exception) -> None:
        self.log.state_in_doubt(place, error)

    # --- changes ------------------------------------------------------------------------------------------------------

    def check(self) -> ErrorCode:
        return self.log.check_append(self.leader_epoch)

    def batch_bytes_max(self) -> int:
        return self.log.batch_bytes_max()

    def put(self, change: Change) -> None:
        if not self._records:
            self._written[self] = None
        self._records += change.records
        self._bytes += change.byte_count
        self.shard.store.replay(change, NOT_WRITTEN)

    def put_if_fits(self, change: Change) -> bool:
        if BATCH_OVERHEAD_BYTES + change.byte_count > self.log.batch_bytes_max():
            return False
        self.put(change)
        return True

    def put_in_transaction(self, change: Change, producer: ProducerInTransaction) -> ErrorCode:
        if not self.flush():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        outcome = self.log.append_in_transaction(self.leader_epoch, change.records, producer)
        if isinstance(outcome, Refused):
            return outcome.error_code
        self._required_offset = outcome
        self.shard.store.replay(change, outcome - len(change.records))
        return ErrorCode.NONE

    def begin_verification(self, producer: ProducerInTransaction) -> int:
        return self.log.begin_verification(producer)

    def append_marker(self, ended: TransactionEnd, change: Change) -> int | Refused:
        """Append the marker that is this change now, behind what this turn has put, and return the high watermark that
        commits it. What is answered later waits for the marker too.
        """
        if not self.flush():
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        outcome = self.log.append_marker(self.leader_epoch, ended)
        if isinstance(outcome, Refused):
            return outcome
        self._required_offset = outcome
        self.shard.store.replay(change, outcome - 1)
        return outcome

    # --- answers ------------------------------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether anything put is not committed."""
        return bool(self._records) or self._required_offset > self._high_watermark

    @property
    def has_unwritten(self) -> bool:
        """Whether anything was put that is not appended, or an append was lost."""
        return bool(self._records) or self._is_lost

    def answer(self, stream_id: int, answer: GroupAnswer) -> None:
        if not (self._records or self._required_offset > self._high_watermark):
            self.answers.append((stream_id, answer))
        elif self._waiting_bytes >= WAITING_BYTES_MAX:
            self.answers.append((stream_id, GroupAnswer(answer.request_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        else:
            self._waiting_bytes += _WAITING_OVERHEAD_BYTES + len(answer.body)
            self._waiting_list().append((stream_id, answer))

    def answer_now(self, stream_id: int, answer: GroupAnswer) -> None:
        self.answers.append((stream_id, answer))

    def then(self, effect: Effect) -> None:
        if self.is_behind:
            self._waiting_list().append(effect)
        else:
            effect.committed()

    def _waiting_list(self) -> list[Waiting]:
        if self._records:
            return self._waiting_now
        if not self._waiting or self._waiting[-1][0] != self._required_offset:
            self._waiting.append((self._required_offset, []))
        return self._waiting[-1][1]

    def committed(self, high_watermark: int) -> None:
        """Everything below it is on all in-sync replicas."""
        if high_watermark > self._high_watermark:
            self._high_watermark = high_watermark
        waiting = self._waiting
        while waiting and waiting[0][0] <= self._high_watermark:
            for each in waiting.popleft()[1]:
                if isinstance(each, Effect):
                    each.committed()
                else:
                    self._waiting_bytes -= _WAITING_OVERHEAD_BYTES + len(each[1].body)
                    self.answers.append(each)

    # --- appends ------------------------------------------------------------------------------------------------------

    def append(self) -> bool:
        """Append at the end of a turn. Return False if the write is lost, and with it the state of this partition."""
        if self._is_lost or not self._records:
            return not self._is_lost
        bytes_max = self.log.batch_bytes_max()
        batches = [self._records] if self._bytes <= bytes_max else _batches(self._records, bytes_max)
        self._records, self._bytes = [], BATCH_OVERHEAD_BYTES
        for batch in batches:
            outcome = self.log.append(self.leader_epoch, batch)
            if isinstance(outcome, Refused):
                return False
            self._required_offset = outcome
        if self._waiting_now:
            self._waiting.append((self._required_offset, self._waiting_now))
            self._waiting_now = []
        return True

    def flush(self) -> bool:
        """Append before the end of the turn. Return False if that is lost: the end of the turn sees that too."""
        if not self.append():
            self._is_lost = True
            self._written[self] = None
        return not self._is_lost


def _batches(records: list[Record], bytes_max: int) -> list[list[Record]]:
    batches: list[list[Record]] = []
    size = bytes_max
    for record in records:
        size += record_bytes(record)
        if size > bytes_max or not batches:
            batches.append([])
            size = BATCH_OVERHEAD_BYTES + record_bytes(record)
        batches[-1].append(record)
    return batches
