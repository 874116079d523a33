"""The records that a coordinator writes in one turn, and the answers and actions that wait for their commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from barnabas.channel.messages import GroupAnswer
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.markers import ProducerInTransaction, TransactionEnd
from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.runtime.coordinator_log import CoordinatedLog

BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 32
"""An upper bound of length, attributes, deltas and lengths of one record."""
WAITING_BYTES_MAX: Final = 16 << 20
"""Bytes of the answers that wait. While nothing is committed, clients give up and retry, and each time leave one
here.
"""
_WAITING_OVERHEAD_BYTES: Final = 200
"""An estimate of what an answer takes besides its body."""

StreamAnswer: TypeAlias = tuple[int, GroupAnswer]
"""Stream id, and what is sent to it."""


def _nothing() -> None:
    """No call waits for it."""


class Deferred(NamedTuple):
    """Exactly one of the two is called, once."""

    committed: Callable[[], None]
    lost: Callable[[], None] = _nothing


Waiting: TypeAlias = StreamAnswer | Deferred


def do_all(steps: Iterable[Callable[[], None]]) -> None:
    """Take every step, also after one that has met an unexpected exception; then raise the first one."""
    errors = []
    for step in steps:
        try:
            step()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


class CoordinatorLogWriter:
    """Collects records over a turn and appends them as one batch; answers wait for what has been written before them.

    If the append is refused under the leading epoch, or lost, the state that the records describe is void: `append`
    returns that, and `lose` fails every call that waits.
    """

    __slots__ = (
        "_bytes",
        "_high_watermark",
        "_is_lost",
        "_records",
        "_required_offset",
        "_waiting",
        "_waiting_bytes",
        "_waiting_now",
        "_written",
        "answers",
        "leader_epoch",
        "log",
    )

    def __init__(
        self,
        log: CoordinatedLog,
        leader_epoch: int,
        answers: list[StreamAnswer],
        written: dict[CoordinatorLogWriter, None],
    ) -> None:
        """`answers` takes what need not wait (any more), `written` each writer that has something to append.

        What is already in the log has to be committed first, because answers depend on what is read from it.
        """
        self.log = log
        self.leader_epoch = leader_epoch
        self.answers = answers
        self._written = written
        self._records: list[Record] = []
        self._is_lost = False
        self._bytes = BATCH_OVERHEAD_BYTES
        self._waiting: deque[tuple[int, list[Waiting]]] = deque()
        """By the high watermark that they wait for."""
        self._waiting_now: list[Waiting] = []
        """For what this turn writes."""
        self._waiting_bytes = 0
        """Bytes of the answers in both."""
        self._required_offset = log.end_offset()
        self._high_watermark = log.high_watermark()

    def check(self) -> ErrorCode:
        """Whether anything can be written in this turn."""
        return self.log.check_append(self.leader_epoch)

    def write(self, record: Record) -> None:
        """Write what `check` allows and what is small: a tombstone."""
        self._write(record, _size_of(record))

    def write_if_fits(self, record: Record) -> bool:
        """Write what `check` allows. Return False, and write nothing, if it is too large for one batch."""
        size = _size_of(record)
        if BATCH_OVERHEAD_BYTES + size > self.log.batch_bytes_max():
            return False
        self._write(record, size)
        return True

    def _write(self, record: Record, size: int) -> None:
        if not self._records:
            self._written[self] = None
        self._records.append(record)
        self._bytes += size

    @property
    def is_behind(self) -> bool:
        """Whether anything written is not committed."""
        return bool(self._records) or self._required_offset > self._high_watermark

    def answer(self, stream_id: int, answer: GroupAnswer) -> None:
        """Send this answer when everything written so far is committed, perhaps immediately.

        COORDINATOR_NOT_AVAILABLE, which means the request may be done, if too much already waits for the commit.
        """
        if not (self._records or self._required_offset > self._high_watermark):
            self.answers.append((stream_id, answer))
        elif self._waiting_bytes >= WAITING_BYTES_MAX:
            self.answers.append((stream_id, GroupAnswer(answer.request_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        else:
            self._waiting_bytes += _WAITING_OVERHEAD_BYTES + len(answer.body)
            self._waiting_list().append((stream_id, answer))

    def defer(self, deferred: Deferred) -> None:
        """Call this when everything written so far is committed, perhaps immediately."""
        if self.is_behind:
            self._waiting_list().append(deferred)
        else:
            deferred.committed()

    def _waiting_list(self) -> list[Waiting]:
        if self._records:
            return self._waiting_now
        if not self._waiting or self._waiting[-1][0] != self._required_offset:
            self._waiting.append((self._required_offset, []))
        return self._waiting[-1][1]

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

    def append_in_transaction(self, records: list[Record], producer: ProducerInTransaction) -> int | Refused:
        """Append one batch of a producer's transaction now, behind what this turn has written, and return the offset of
        its first record.
        """
        if not self.flush():
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        outcome = self.log.append_in_transaction(self.leader_epoch, records, producer)
        if isinstance(outcome, Refused):
            return outcome
        self._required_offset = outcome
        return outcome - len(records)

    def flush(self) -> bool:
        """Append before the end of the turn. Return False if that is lost: the end of the turn sees that too."""
        if not self.append():
            self._is_lost = True
            self._written[self] = None
        return not self._is_lost

    def append_marker(self, ended: TransactionEnd) -> int | Refused:
        """Append a marker now. What this turn has written must be appended before; what is answered later waits for
        the marker too.
        """
        outcome = self.log.append_marker(self.leader_epoch, ended)
        if isinstance(outcome, Refused):
            return outcome
        self._required_offset = outcome
        return outcome

    def committed(self, high_watermark: int) -> None:
        if high_watermark > self._high_watermark:
            self._high_watermark = high_watermark
        waiting = self._waiting
        while waiting and waiting[0][0] <= self._high_watermark:
            for each in waiting.popleft()[1]:
                if isinstance(each, Deferred):
                    each.committed()
                else:
                    self._waiting_bytes -= _WAITING_OVERHEAD_BYTES + len(each[1].body)
                    self.answers.append(each)

    def lose(self) -> None:
        """What has been written may be kept or lost: callers that wait have to find the coordinator again."""
        lost = [each for _, several in self._waiting for each in several] + self._waiting_now
        self._waiting.clear()
        self._waiting_now = []
        self._waiting_bytes = 0
        self._records, self._bytes = [], BATCH_OVERHEAD_BYTES
        do_all([partial(self._lose, each) for each in lost])

    def _lose(self, waiting: Waiting) -> None:
        if isinstance(waiting, Deferred):
            waiting.lost()
        else:
            self.answers.append((waiting[0], GroupAnswer(waiting[1].request_id, ErrorCode.NOT_COORDINATOR)))


def _size_of(record: Record) -> int:
    return RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")


def batch_bytes(records: list[Record]) -> int:
    """Return an upper bound of the size of a batch."""
    return BATCH_OVERHEAD_BYTES + sum([_size_of(record) for record in records])


def _batches(records: list[Record], bytes_max: int) -> list[list[Record]]:
    batches: list[list[Record]] = []
    size = bytes_max
    for record in records:
        size += _size_of(record)
        if size > bytes_max or not batches:
            batches.append([])
            size = BATCH_OVERHEAD_BYTES + _size_of(record)
        batches[-1].append(record)
    return batches
