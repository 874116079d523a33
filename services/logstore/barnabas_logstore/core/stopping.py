"""A clean stop: nothing new is begun, everything in progress ends, everything is made durable, and markers are
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.log_flusher import LogFlusher
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.effects import StorageEffect


class Stoppable(Protocol):
    def stop(self) -> None:
        """Begin nothing more of what is asked from now on; finish what has been begun, or give it up."""
        ...


class Working(Protocol):
    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be done, and nothing is in progress."""
        ...


class Stopping:
    """`effects_in_flight`: effects given to the disks and not reported yet, counted by their host."""

    def __init__(
        self,
        stoppable: Sequence[Stoppable],
        working: Sequence[Working],
        directories: Directories,
        flusher: LogFlusher,
        replicas: Replicas,
    ) -> None:
        """`stoppable` are stopped in their order; `working` are waited for."""
        self._stoppable = stoppable
        self._working = working
        self._directories = directories
        self._flusher = flusher
        self._replicas = replicas
        self.is_begun = False
        self.effects_in_flight = 0

    def begin(self) -> None:
        """Refuse what comes from now on (it is certainly not done); finish everything else."""
        self.is_begun = True
        for each in self._stoppable:
            each.stop()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be done, and nothing is in progress."""
        return not self.effects_in_flight and all(each.is_idle for each in self._working)

    def take_closing_flushes(self) -> list[StorageEffect]:
        """Return the last effects, while idle: everything that is not durable yet."""
        assert self.is_begun
        assert self.is_idle
        closing = self._directories.closing_flushes()
        for each in closing:
            self._flusher.expect(each)
        self.effects_in_flight += len(closing)
        return [each.effect for each in closing]

    def shut_down(self) -> list[str]:
        """Write the last checkpoints and the clean-shutdown markers, by direct calls of the disks.

        Return the directories that had to stay without a marker: they are recovered at the next start.
        """
        assert self.is_begun
        assert self.is_idle
        return self._directories.shut_down(self._replicas.broker_epoch)
