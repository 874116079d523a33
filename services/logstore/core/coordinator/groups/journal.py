"""What a coordinator writes in one turn, and what it does when that is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record
from services.logstore.core.coordinator.doors import CoordinatedLog

BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 32
"""More than length, attributes, deltas and lengths of one record take."""


class Journal:
    """Records gather over a turn and are appended as one batch; actions wait for what has been written before them.

    Refused under the epoch that leads, or lost, the state that the records are about is void: `append` says so.
    """

    __slots__ = ("_actions", "_high_watermark", "_leader_epoch", "_log", "_records", "_required_offset")

    def __init__(self, log: CoordinatedLog, leader_epoch: int) -> None:
        self._log = log
        self._leader_epoch = leader_epoch
        self._records: list[Record] = []
        self._actions: deque[tuple[int, Callable[[], None]]] = deque()
        """With the high watermark that each waits for; of this turn's, -1."""
        self._required_offset = 0
        self._high_watermark = 0

    def check(self) -> ErrorCode:
        """Whether anything can be written in this turn."""
        return self._log.check_append(self._leader_epoch)

    def fits(self, record: Record) -> bool:
        """Whether a record is small enough for a batch of its own."""
        return BATCH_OVERHEAD_BYTES + _size_of(record) <= self._log.batch_bytes_max()

    def write(self, record: Record) -> None:
        """Write what `check` allows and what `fits`."""
        self._records.append(record)

    def then(self, action: Callable[[], None]) -> None:
        """Do this when everything written so far is committed: now, if it is."""
        if not self._records and not self._actions and self._required_offset <= self._high_watermark:
            action()
        else:
            self._actions.append((-1 if self._records else self._required_offset, action))

    def append(self) -> bool:
        """At the end of a turn; False: it is lost, and with it what was thought of this partition."""
        records, self._records = self._records, []
        if not records:
            return True
        for batch in _batches(records, self._log.batch_bytes_max()):
            outcome = self._log.append(self._leader_epoch, batch)
            if isinstance(outcome, ErrorCode):
                return False
            self._required_offset = outcome
        self._actions = deque((self._required_offset if at < 0 else at, action) for at, action in self._actions)
        return True

    def committed(self, high_watermark: int) -> None:
        self._high_watermark = max(high_watermark, self._high_watermark)
        actions = self._actions
        while actions and 0 <= actions[0][0] <= self._high_watermark:
            actions.popleft()[1]()


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
