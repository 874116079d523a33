"""Failures of effects: the completion of each gets its reason, and its log directory goes offline.

A log that an unexpected exception has left in doubt goes offline alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.containment import CONTAINING
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.replica.containment import LOG_EFFECT
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replication.replication import Replication
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import CompletionFault, Outbox
from barnabas_logstore.core.streams.watches import Watches


class EffectFailures:
    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        full_disks: FullDisks,
        replication: Replication,
        watches: Watches,
        outbox: Outbox,
        checkpoints: Checkpoints,
        fail_pending: Callable[[Partition, ErrorCode], None],
    ) -> None:
        """`fail_pending` answers every pending request of a partition with one error."""
        self._replicas = replicas
        self._directories = directories
        self._full_disks = full_disks
        self._replication = replication
        self._watches = watches
        self._outbox = outbox
        self._checkpoints = checkpoints
        self._fail_pending = fail_pending

    def on_failed(self, effect: StorageEffect, error: DiskError) -> None:
        """An effect has failed, and may have been carried out in part."""
        completion = self._outbox.take_completion(effect)
        try:
            completion.failed(error)
        except Exception as fault:
            if not completion.logs:
                raise
            self._doubt(completion.logs, fault)
        self.act()
        # Not before: when it goes offline, its log counts it among those in progress.
        for log in completion.logs:
            log.effect_ended(effect)

    def on_fault(self, effect: StorageEffect, fault: CompletionFault) -> None:
        """What follows an effect was ended by an unexpected exception: its logs are in doubt. Without any it is raised
        again, and ends the process.
        """
        if not fault.logs:
            raise fault
        self._doubt(fault.logs, fault.cause)
        self.act()
        for log in fault.logs:
            log.effect_ended(effect)

    def _doubt(self, logs: Sequence[PartitionLog], error: Exception) -> None:
        """One exception is noted once, however many logs an effect had."""
        with CONTAINING:
            self._replicas.contained.log_in_doubt(LOG_EFFECT, error, logs[0])
        for log in logs[1:]:
            with CONTAINING:
                self._replicas.contained.doubt(log, error)

    def act(self) -> None:
        """Take directories offline in which an effect failed, and with them every partition that they hold.

        Raises Uncontained if something unexpected ends that: a partition that is half offline serves nothing, and no
        one would learn of it.
        """
        failures = self._replicas.contained.failures
        while failures:
            path, error = failures.pop(0)
            with CONTAINING:
                self._take_away(path, error)

    def _take_away(self, path: str | PartitionLog, error: DiskError) -> None:
        if isinstance(path, PartitionLog):
            self._take_offline(path, error)
            return
        if error.is_lack_of_room and self._directories.by_path[path].error is None:
            self._full_disks.ran_out(path, error)
            return
        logs = self._directories.go_offline(path, error)
        if logs is None:
            return
        self._outbox.report_offline(path, error)
        for log in logs:
            partition = self._replicas.by_log.get(log)
            if partition is not None:
                self._fail(partition)

    def _fail(self, partition: Partition) -> None:
        partition.fail()
        self._fail_pending(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        self._replication.partition_gone(partition)
        self._watches.changed(partition)

    def _take_offline(self, log: PartitionLog, error: DiskError) -> None:
        """Take one log offline, and its partition. The next start recovers all of it from the disk."""
        partition = self._replicas.by_log.get(log)
        if log.error is not None:
            return
        log.fail(error)
        if partition is not None:
            self._checkpoints.lower(log)
            self._fail(partition)
            reason = self._replicas.contained.in_doubt[log]
            self._outbox.report_offline_partition(f"{partition.topic}-{partition.partition}", reason)
