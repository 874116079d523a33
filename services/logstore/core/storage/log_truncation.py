"""What a log goes through when it is cut: see `truncation` for what is cut and how.

Recovery takes what is below the recovery point on trust. So before anything may be appended below an old one, a lower
one has to be on the disk: `begin` lowers it in memory, and keeps flushes from raising it again; the caller has it
written down (`Checkpoints.lower`) before it asks for the cut. Until then the cut can be given up.

What the IO worker finds when it opens the cut log again takes the place of everything the log had in memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from services.logstore.core.storage.effects import TruncateEffect

if TYPE_CHECKING:
    from services.logstore.core.storage.log import PartitionLog


class LogTruncation:
    """`is_begun`: the log may neither grow nor be flushed. `in_flight` is the effect that cuts it.

    What is at or past `offset` goes; with `begins_anew` everything, and the log goes on empty at `offset`.
    """

    __slots__ = ("_log", "begins_anew", "in_flight", "is_begun", "offset")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.is_begun = False
        self.offset = -1
        self.begins_anew = False
        self.in_flight: TruncateEffect | None = None

    def begin(self, offset: int, *, begin_anew: bool = False) -> bool:
        """Get ready to cut at `offset`; before the log's start that is to begin anew. False: not now, something else is
        under way.
        """
        log = self._log
        is_free = (
            log.is_idle
            and not log.is_held
            and log.retirement.is_idle
            and log.room.is_log_whole
            and not log.is_being_cleaned
        )
        if not is_free or log.error is not None:
            return False
        self.is_begun = True
        self.offset = offset
        self.begins_anew = begin_anew or offset < log.log_start_offset
        # A crash may bring some of the segments back, and of those below the recovery point nobody asks whether they
        # follow each other.
        log.flushes.recovery_point = 0 if self.begins_anew else min(log.recovery_point, offset)
        return True

    def give_up(self) -> None:
        """Nothing has been cut, and nothing is going to be."""
        assert self.in_flight is None
        self.is_begun = False

    def done(self, effect: TruncateEffect) -> None:
        """The log is what it was opened as."""
        assert effect is self.in_flight
        opened = effect.opened
        assert opened is not None
        self.in_flight = None
        self.is_begun = False
        log = self._log
        log.segments, log.leader_epochs, log.producers = opened.segments, opened.leader_epochs, opened.producers
        log.log_start_offset = opened.log_start_offset
        log.next_offset = log.log_end_offset = opened.next_offset
        log.written_position = opened.written_position
        log.first_dirty_offset = min(log.first_dirty_offset, opened.next_offset)
        opened.flushes.take_over(log)
        for segment, following in pairwise(log.segments.all()):
            if following.base_offset > log.recovery_point:
                log.flushes.add_closed_segment(segment, following.base_offset)
        # Snapshots that were to be written with the next flush are forgotten, and retention counts on them.
        log.add_snapshot(log.next_offset, log.producers.snapshot())

    def undo(self, effect: TruncateEffect) -> None:
        """There was no room for what has to be written first: nothing has been cut."""
        assert effect is self.in_flight
        self.in_flight = None
        self.is_begun = False
        self._log.leader_epochs.unsaved = True
        for segment in self._log.segments.all():
            segment.save_indexes_anew()

    def fail(self) -> None:
        """The log is offline."""
        self.in_flight = None
        self.is_begun = False
