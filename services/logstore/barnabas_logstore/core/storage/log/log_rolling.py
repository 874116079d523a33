"""From segment to segment: when one is full, or has to go, the next begins, with a snapshot of the producers.

Files of a new segment are made by direct calls, once per segment: no data is involved.
"""

from __future__ import annotations

from barnabas.ports.disk import Disk, DiskError
from barnabas_logstore.core.storage.effects import NewFile
from barnabas_logstore.core.storage.log.features.log_flushes import LogFlushes
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import SNAPSHOT_SUFFIX, Segment, file_name


class LogRolling:
    def __init__(self, disk: Disk, state: LogState, flushes: LogFlushes) -> None:
        self._disk = disk
        self._state = state
        self._flushes = flushes

    def roll(self) -> Segment:
        """Begin a segment at `next_offset`; the first write to it creates its files.

        The closed one is flushed by an effect as soon as all of it is written: that can take seconds, and appends don't
        wait for it.
        """
        state = self._state
        closing = state.segments.active
        closing.seal()
        self.add_snapshot()
        segment = self._segment_after(closing)
        segment.begin()
        state.segments.add(segment)
        self._flushes.add_closed_segment(closing, state.next_offset)
        return segment

    def try_to_roll(self) -> bool:
        """Begin a segment, files and all, in a log that is idle and has room; False: its files found none.

        Raises DiskError.
        """
        segment = self._segment_after(self._state.segments.active)
        try:
            segment.create()
        except DiskError as error:
            if not error.is_lack_of_room:
                raise
            segment.remove()
            return False
        self.roll().is_made = True
        self._flushes.names_changed()
        return True

    def _segment_after(self, closing: Segment) -> Segment:
        state = self._state
        start_position = closing.start_position + closing.byte_count
        return Segment(self._disk, state.directory, state.next_offset, start_position, state.config)

    def add_snapshot(self) -> None:
        """Have the producers as of `next_offset` written with the next flush, unless they are to be already."""
        if self._flushes.snapshot_offset != self._state.next_offset:
            self.add_snapshot_again()

    def add_snapshot_again(self) -> None:
        state = self._state
        path = f"{state.directory}/{file_name(state.next_offset, SNAPSHOT_SUFFIX)}"
        self._flushes.add_snapshot(NewFile(path, state.producers.snapshot()), state.next_offset)
