"""What a coordinator writes in one turn, and what it says and does when that is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from barnabas.channel.messages import GroupAnswer
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.coordinator_log import CoordinatedLog

BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 32
"""More than length, attributes, deltas and lengths of one record take."""
WAITING_BYTES_MAX: Final = 16 << 20
"""Of the answers that wait. While nothing is committed clients give up and ask again, and each time leave one here."""
_WAITING_OVERHEAD_BYTES: Final = 200
"""About what an answer takes besides its body."""

StreamAnswer: TypeAlias = tuple[int, GroupAnswer]
"""Stream id, and what is sent there."""


def _nothing() -> None:
    """Nobody waits for it."""


class Deferred(NamedTuple):
    """One of both is called, once."""

    committed: Callable[[], None]
    lost: Callable[[], None] = _nothing


Waiting: TypeAlias = StreamAnswer | Deferred


class CoordinatorLogWriter:
    """Records gather over a turn and are appended as one batch; answers wait for what has been written before them.

    Refused under the epoch that leads, or lost, the state that the records are about is void: `append` says so, and
    `lose` tells everybody who waits.
    """

    __slots__ = (
        "_answers",
        "_bytes",
        "_high_watermark",
        "_leader_epoch",
        "_log",
        "_records",
        "_required_offset",
        "_waiting",
        "_waiting_bytes",
        "_waiting_now",
        "_written",
    )

    def __init__(
        self,
        log: CoordinatedLog,
        leader_epoch: int,
        answers: list[StreamAnswer],
        written: dict[CoordinatorLogWriter, None],
    ) -> None:
        """`answers` takes what need not wait any more, `written` every journal that has something to append.

        What is in the log already is to be committed first, as what is read from it is told.
        """
        self._log = log
        self._leader_epoch = leader_epoch
        self._answers = answers
        self._written = written
        self._records: list[Record] = []
        self._bytes = BATCH_OVERHEAD_BYTES
        self._waiting: deque[tuple[int, list[Waiting]]] = deque()
        """By the high watermark that they wait for."""
        self._waiting_now: list[Waiting] = []
        """For what this turn writes."""
        self._waiting_bytes = 0
        """Of the answers in both."""
        self._required_offset = log.end_offset()
        self._high_watermark = log.high_watermark()

    def check(self) -> ErrorCode:
        """Whether anything can be written in this turn."""
        return self._log.check_append(self._leader_epoch)

    def write(self, record: Record) -> None:
        """Write what `check` allows, and what is small: a tombstone."""
        self._write(record, _size_of(record))

    def write_if_fits(self, record: Record) -> bool:
        """Write what `check` allows; False, and nothing is written, when it is too large for a batch of its own."""
        size = _size_of(record)
        if BATCH_OVERHEAD_BYTES + size > self._log.batch_bytes_max():
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
        """Something that has been written is not committed."""
        return bool(self._records) or self._required_offset > self._high_watermark

    def answer(self, stream_id: int, answer: GroupAnswer) -> None:
        """Say so when everything written so far is committed: now, if it is.

        COORDINATOR_NOT_AVAILABLE, what was asked may be done, when too much waits for that already.
        """
        if not (self._records or self._required_offset > self._high_watermark):
            self._answers.append((stream_id, answer))
        elif self._waiting_bytes >= WAITING_BYTES_MAX:
            self._answers.append((stream_id, GroupAnswer(answer.request_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        else:
            self._waiting_bytes += _WAITING_OVERHEAD_BYTES + len(answer.body)
            self._waiting_list().append((stream_id, answer))

    def defer(self, deferred: Deferred) -> None:
        """Do this when everything written so far is committed: now, if it is."""
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
        """At the end of a turn; False: it is lost, and with it what was thought of this partition."""
        if not self._records:
            return True
        bytes_max = self._log.batch_bytes_max()
        batches = [self._records] if self._bytes <= bytes_max else _batches(self._records, bytes_max)
        self._records, self._bytes = [], BATCH_OVERHEAD_BYTES
        for batch in batches:
            outcome = self._log.append(self._leader_epoch, batch)
            if isinstance(outcome, ErrorCode):
                return False
            self._required_offset = outcome
        if self._waiting_now:
            self._waiting.append((self._required_offset, self._waiting_now))
            self._waiting_now = []
        return True

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
                    self._answers.append(each)

    def lose(self) -> None:
        """What has been written may last or not: whoever waits for it is told to ask whoever coordinates now."""
        lost = [each for _, several in self._waiting for each in several] + self._waiting_now
        self._waiting.clear()
        self._waiting_now = []
        self._waiting_bytes = 0
        self._records, self._bytes = [], BATCH_OVERHEAD_BYTES
        for each in lost:
            if isinstance(each, Deferred):
                each.lost()
            else:
                self._answers.append((each[0], GroupAnswer(each[1].request_id, ErrorCode.NOT_COORDINATOR)))


def _size_of(record: Record) -> int:
    return RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")


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
