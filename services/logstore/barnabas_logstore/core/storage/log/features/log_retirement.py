"""Retire segments of one log: remove them from it at once, and their files by an effect when nothing else needs
them.
"""

from __future__ import annotations

from typing import Final

from barnabas_logstore.core.storage.effects import RetireEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import SNAPSHOT_SUFFIX, Segment, file_name

RENAMED_AT_ONCE: Final = 64
"""Segments whose files one effect renames: each flushes the directory."""


class LogRetirement:
    """`in_flight` is the effect that renames files."""

    __slots__ = ("_state", "_waiting", "in_flight")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._waiting: list[list[str]] = []
        self.in_flight: RetireEffect | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no file of a retired segment still has its old name."""
        return not self._waiting and self.in_flight is None

    def add(self, retired: list[Segment]) -> None:
        """They are no longer among the log's segments. Reads in progress continue with the files they hold."""
        state = self._state
        for segment in retired:
            segment.is_retired = True
            snapshot = f"{state.directory}/{file_name(segment.base_offset, SNAPSHOT_SUFFIX)}"
            self._waiting.append([segment.log_path, *segment.index_paths, snapshot])
        state.move_log_start(state.segments.first.base_offset)

    def begin(self) -> RetireEffect | None:
        """Return the next pending renames; None if there are none, or others are in progress."""
        if not self._waiting or self.in_flight is not None:
            return None
        self.in_flight = RetireEffect(self._state.directory, self._waiting[:RENAMED_AT_ONCE])
        self._waiting = self._waiting[RENAMED_AT_ONCE:]
        return self.in_flight

    def done(self, effect: RetireEffect) -> None:
        if self._state.error is not None:
            return  # offline meanwhile: nothing is in progress any more
        assert effect is self.in_flight
        self.in_flight = None

    def undo(self, effect: RetireEffect) -> None:
        """There was no space for new names: what has not been renamed is tried again."""
        self.done(effect)
        self._waiting = effect.segments + self._waiting
