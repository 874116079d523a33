"""A clean stop: nothing new is begun, everything that is under way ends, all is durable, and the disks say so."""

from __future__ import annotations

from barnabas_logstore.core.administration.dispatch import Administration
from barnabas_logstore.core.control.control import Control
from barnabas_logstore.core.coordinator.coordination import Coordination
from barnabas_logstore.core.data.data_inbox import DataInbox
from barnabas_logstore.core.maintenance.alter_replica_log_dirs import AlterReplicaLogDirs
from barnabas_logstore.core.maintenance.cleaning import Cleaning
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.log_flusher import LogFlusher
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replication.replication import Replication
from barnabas_logstore.core.storage.effects import StorageEffect


class Stopping:
    """`effects_in_flight`: what the disks have been given and not reported yet, counted by who gives it to them."""

    def __init__(
        self,
        control: Control,
        data_inbox: DataInbox,
        coordination: Coordination,
        replication: Replication,
        cleaning: Cleaning,
        moves: AlterReplicaLogDirs,
        administration: Administration,
        directories: Directories,
        flusher: LogFlusher,
        replicas: Replicas,
    ) -> None:
        self._control = control
        self._data_inbox = data_inbox
        self._coordination = coordination
        self._replication = replication
        self._cleaning = cleaning
        self._moves = moves
        self._administration = administration
        self._directories = directories
        self._flusher = flusher
        self._replicas = replicas
        self.is_begun = False
        self.effects_in_flight = 0

    def begin(self) -> None:
        """Refuse appends that come from now on (they are certainly not written); finish everything else."""
        self.is_begun = True
        self._data_inbox.refuses_appends = True
        self._coordination.stop()
        self._replication.following.stop()
        self._cleaning.stop()
        self._moves.stop()

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be done, and nothing is under way."""
        is_working = len(self._data_inbox) > 0 or self._coordination.has_work or self._administration.has_work
        is_idle = self._control.is_idle and self._cleaning.is_idle and self._moves.is_idle
        return is_idle and not is_working and not self.effects_in_flight

    def take_closing_flushes(self) -> list[StorageEffect]:
        """The last effects, while idle: everything that is not durable yet."""
        assert self.is_begun
        assert self.is_idle
        closing = self._directories.closing_flushes()
        for each in closing:
            self._flusher.expect(each)
        self.effects_in_flight += len(closing)
        return [each.effect for each in closing]

    def shut_down(self) -> list[str]:
        """The last checkpoints and the clean-shutdown markers, by direct calls of the disks.

        Returns the directories that had to stay without a marker: they are recovered at the next start.
        """
        assert self.is_begun
        assert self.is_idle
        return self._directories.shut_down(self._replicas.broker_epoch)
