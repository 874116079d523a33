"""What comes of effects: each outcome goes to the completion that was given with its effect, and what has failed by
then takes its log directory offline.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replication.replication import Replication
from barnabas_logstore.core.storage.effect_execution import EffectResult
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.watches import Watches


class EffectCompletions:
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
        """`fail_pending` answers everything unanswered of a partition at once, with one error."""
        self._replicas = replicas
        self._directories = directories
        self._full_disks = full_disks
        self._replication = replication
        self._watches = watches
        self._outbox = outbox
        self._completions = outbox.completions
        self._fail_pending = fail_pending

    def on_done(self, effect: StorageEffect, result: EffectResult) -> None:
        """An effect has been carried out."""
        completion = self._completions.pop(effect)
        for log in completion.logs:
            if log.unreported:
                log.effect_ended(effect)
        completion.done(result)
        if self._replicas.disk_failures:
            self.act_on_failures()

    def on_failed(self, effect: StorageEffect, error: DiskError) -> None:
        """An effect has failed, and may have been carried out in part."""
        completion = self._completions.pop(effect)
        completion.failed(error)
        self.act_on_failures()
        # Not before: going offline its log has counted it among those under way.
        for log in completion.logs:
            log.effect_ended(effect)

    def act_on_failures(self) -> None:
        """Take directories offline in which something failed, and with them every partition that they hold."""
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
