"""Failures of effects: the completion of each gets its reason, and its log directory goes offline."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replication.replication import Replication
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.streams.outbox import Outbox
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
        fail_pending: Callable[[Partition, ErrorCode], None],
    ) -> None:
        """`fail_pending` answers every pending request of a partition with one error."""
        self._replicas = replicas
        self._directories = directories
        self._full_disks = full_disks
        self._replication = replication
        self._watches = watches
        self._outbox = outbox
        self._fail_pending = fail_pending

    def on_failed(self, effect: StorageEffect, error: DiskError) -> None:
        """An effect has failed, and may have been carried out in part."""
        completion = self._outbox.take_completion(effect)
        completion.failed(error)
        self.act()
        # Not before: when it goes offline, its log counts it among those in progress.
        for log in completion.logs:
            log.effect_ended(effect)

    def act(self) -> None:
        """Take directories offline in which an effect failed, and with them every partition that they hold."""
        failures = self._replicas.disk_failures
        while failures:
            path, error = failures.pop(0)
            if error.is_lack_of_room:
                self._full_disks.ran_out(path, error)
                continue
            logs = self._directories.go_offline(path, error)
            if logs is None:
                continue
            self._outbox.report_offline(path, error)
            for log in logs:
                partition = self._replicas.by_log.get(log)
                if partition is not None:
                    partition.fail()
                    self._fail_pending(partition, ErrorCode.KAFKA_STORAGE_ERROR)
                    self._replication.partition_gone(partition)
                    self._watches.changed(partition)
