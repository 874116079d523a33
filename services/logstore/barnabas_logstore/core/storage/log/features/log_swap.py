"""A cleaned segment on its way to the place of those that it was made of."""

from __future__ import annotations

from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage.compaction.orders import CleanedSegment
from barnabas_logstore.core.storage.compaction.swap import plan_swap
from barnabas_logstore.core.storage.effects import SwapEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import Segment


class LogSwap:
    def __init__(self, disk: Disk, state: LogState) -> None:
        self._disk = disk
        self._state = state
        self._swap: tuple[SwapEffect, Segment] | None = None

    @property
    def in_flight(self) -> SwapEffect | None:
        return None if self._swap is None else self._swap[0]

    def begin(self, cleaned: CleanedSegment) -> SwapEffect | None:
        """Swap a cleaned segment in; None if its source segments do not all exist any more.

        From here on the log is read with it. Raises DiskError.
        """
        assert self._swap is None
        state = self._state
        self._swap = plan_swap(self._disk, state.directory, state.config, state.segments, cleaned)
        return self.in_flight

    def end(self, effect: SwapEffect) -> None:
        """The files have their names in the log."""
        assert self._swap is not None
        begun, segment = self._swap
        assert effect is begun
        self._swap = None
        segment.let_go_of_files()

    def abandon(self) -> None:
        """The log is offline: the effect may end or not."""
        self._swap = None
