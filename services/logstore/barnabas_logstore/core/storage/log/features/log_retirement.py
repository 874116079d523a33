"""Segments on their way out of one log: out of it at once, their files by an effect when nothing else wants them."""

from __future__ import annotations

from barnabas_logstore.core.storage.effects import RetireEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import SNAPSHOT_SUFFIX, Segment, file_name


class LogRetirement:
    """`in_flight` is the effect that renames files."""

    __slots__ = ("_state", "_waiting", "in_flight")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._waiting: list[list[str]] = []
        self.in_flight: RetireEffect | None = None

    @property
    def is_idle(self) -> bool:
        """No file of a retired segment has its old name."""
        return not self._waiting and self.in_flight is None

    def add(self, retired: list[Segment]) -> None:
        """They are no longer among the log's segments. Reads under way go on with what they hold."""
        state = self._state
        for segment in retired:
            segment.is_retired = True
            snapshot = f"{state.directory}/{file_name(segment.base_offset, SNAPSHOT_SUFFIX)}"
            self._waiting.append([*segment.paths, snapshot])
        state.move_log_start(state.segments.first.base_offset)

    def begin(self) -> RetireEffect | None:
        """The renames that wait; None where there are none, or others are under way."""
        if not self._waiting or self.in_flight is not None:
            return None
        self.in_flight = RetireEffect(self._state.directory, self._waiting)
        self._waiting = []
        return self.in_flight

    def done(self, effect: RetireEffect) -> None:
        if self._state.error is not None:
            return  # Offline meanwhile: nothing is under way any more.
        assert effect is self.in_flight
        self.in_flight = None

    def undo(self, effect: RetireEffect) -> None:
        """There was no room for new names: what has not been renamed is tried again."""
        self.done(effect)
        self._waiting = effect.segments + self._waiting
