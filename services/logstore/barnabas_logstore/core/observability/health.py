"""What is wrong with this logstore's partitions, found in passes over all of them, some with each step."""

from __future__ import annotations

from typing import Final

from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.metrics.conditions import Condition, ConditionKind, named
from barnabas.metrics.recent_exceptions import RecentExceptions
from barnabas_logstore.core.coordinator.coordination import Coordination
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.transactions.shard import TransactionShard
from barnabas_logstore.core.coordinator.transactions.transaction import ENDING, Transaction
from barnabas_logstore.core.maintenance.cleaning import Cleaning
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas

PARTITIONS_PER_STEP: Final = 200
TRANSACTIONS_PER_STEP: Final = 1000
PASS_MS: Final = 5_000
"""A pass begins so long after the one before at the earliest."""
LOAD_MS_MAX: Final = 60_000
"""Loading takes longer than this only if it does not go on, or if a coordinator's log was not compacted."""
MARKERS_MS_MAX: Final = 60_000
"""Markers are written within milliseconds while their partitions have leaders."""
COMPACTION_MS_MAX: Final = 1_800_000
"""How long a log may be due for cleaning; one cleaner serves all logs, the dirtiest first."""


class Health:
    def __init__(
        self, replicas: Replicas, coordination: Coordination, cleaning: Cleaning, late_transaction_ms: int
    ) -> None:
        self._replicas = replicas
        self._coordination = coordination
        self._cleaning = cleaning
        self._late_transaction_ms = late_transaction_ms
        self._now_ms = self._wall_ms = 0
        self._begun_ms = -PASS_MS
        self._partitions: list[Partition] = []
        self._coordinated: list[LedShard[TransactionShard]] = []
        self._ids: list[str] = []
        """Of the last of `_coordinated`."""
        self._open: dict[PartitionKey, tuple[int, int]] = {}
        """Of partitions led here: the offset of the first open transaction, and since when that is so."""
        self._loading: dict[tuple[str, int], int] = {}
        """Since when partitions of coordinators are being loaded."""
        self._exceptions = RecentExceptions()
        self._hanging: list[str] = []
        self._offline: list[str] = []
        self._undelivered: list[str] = []
        self._found_hanging: list[str] = []
        self._found_offline: list[str] = []
        self._found_undelivered: list[str] = []

    @property
    def uncleanable(self) -> dict[PartitionKey, str]:
        """Partitions that are not compacted, and why."""
        return dict(self._cleaning.uncleanable)

    def step(self, now_ms: int, wall_ms: int) -> None:
        """Look at some more partitions and transactions. `now_ms` is of a monotonic clock."""
        self._now_ms, self._wall_ms = now_ms, wall_ms
        self._follow_loading()
        counts = self._replicas.contained.counts
        self._exceptions.follow({place.name: count for place, count in counts.items()}, now_ms)
        if not (self._partitions or self._coordinated):
            if now_ms - self._begun_ms < PASS_MS:
                return
            self._begin_pass()
        for partition in self._partitions[-PARTITIONS_PER_STEP:]:
            self._look_at(partition)
        del self._partitions[-PARTITIONS_PER_STEP:]
        self._look_at_transactions()
        if not (self._partitions or self._coordinated):
            self._end_pass()

    def conditions(self) -> list[Condition]:
        """Return what was found in the last pass, and what is known without one."""
        return [
            *named(ConditionKind.OFFLINE_PARTITION, self._offline),
            *named(ConditionKind.COORDINATOR_NOT_LOADED, self._not_loaded()),
            *named(ConditionKind.HANGING_TRANSACTION, self._hanging),
            *named(ConditionKind.MARKER_UNDELIVERED, self._undelivered),
            *named(ConditionKind.CLEANER_FAILS, self._cleaner_failures()),
            *named(ConditionKind.UNCLEANABLE_PARTITION, self._uncleanable()),
            *named(ConditionKind.COMPACTION_BEHIND, self._behind()),
            *self._exceptions.conditions(),
        ]

    # --- the pass -----------------------------------------------------------------------------------------------------

    def _begin_pass(self) -> None:
        self._begun_ms = self._now_ms
        self._partitions = list(self._replicas.by_key.values())
        self._coordinated = list(self._coordination.transaction_partitions)
        self._ids = list(self._coordinated[-1].shard.transactions) if self._coordinated else []
        self._found_hanging, self._found_offline, self._found_undelivered = [], [], []

    def _end_pass(self) -> None:
        self._hanging = sorted(self._found_hanging)
        self._offline = sorted(self._found_offline)
        self._undelivered = sorted(self._found_undelivered)
        self._open = {key: since for key, since in self._open.items() if key in self._replicas.by_key}

    def _look_at(self, partition: Partition) -> None:
        name = f"{partition.topic}-{partition.partition}"
        if not partition.online:
            self._found_offline.append(f"{name} is offline here{self._reason_of(partition)}")
        producers = partition.log.producers
        if not (partition.online and partition.leading and producers.transactions.open):
            self._open.pop(partition.key, None)
            return
        first_offset, producer_id = producers.transactions.open[0]
        known = self._open.get(partition.key)
        if known is None or known[0] != first_offset:
            known = self._open[partition.key] = (first_offset, self._now_ms)
        # By the time of this process: timestamps are the clients', and those of records that are copied are old.
        if self._now_ms - known[1] > self._late_transaction_ms:
            self._found_hanging.append(
                f"a transaction of producer {producer_id} hangs in {name}, and holds up consumers of committed "
                f"records: `barnabas transactions abort {partition.topic} {partition.partition} {first_offset}` ends it"
            )

    def _reason_of(self, partition: Partition) -> str:
        doubt = self._replicas.contained.in_doubt.get(partition.log)
        if doubt is not None:
            return (
                f" after an internal error: {doubt}; the logstore's log has the traceback, and its restart brings the "
                "replica back"
            )
        error = partition.log.error
        return "" if error is None else f": {error}"

    def _look_at_transactions(self) -> None:
        """Look at some ids of one partition."""
        if not self._coordinated:
            return
        led = self._coordinated[-1]
        for transactional_id in self._ids[-TRANSACTIONS_PER_STEP:]:
            transaction = led.shard.transactions.get(transactional_id)
            if transaction is not None:
                self._look_at_transaction(transaction)
        del self._ids[-TRANSACTIONS_PER_STEP:]
        while self._coordinated and not self._ids:
            self._coordinated.pop()
            self._ids = list(self._coordinated[-1].shard.transactions) if self._coordinated else []

    def _look_at_transaction(self, transaction: Transaction) -> None:
        if transaction.state in ENDING and transaction.last_update_ms < self._wall_ms - MARKERS_MS_MAX:
            partitions = sorted([f"{topic}-{partition}" for topic, partition in transaction.partitions])
            self._found_undelivered.append(
                f"the end of a transaction of {transaction.transactional_id} is decided and its markers are not all "
                f"written, for a minute or more: {', '.join(partitions[:3])}"
                f"{f' and {len(partitions) - 3} more' if len(partitions) > 3 else ''}"
            )

    # --- what needs no pass -------------------------------------------------------------------------------------------

    def _follow_loading(self) -> None:
        loading: dict[tuple[str, int], int] = {}
        for group_partition in self._coordination.partitions:
            if group_partition.loader is not None:
                key = (OFFSETS_TOPIC, group_partition.partition)
                loading[key] = self._loading.get(key, self._now_ms)
        for transaction_partition in self._coordination.transaction_partitions:
            if transaction_partition.loader is not None:
                key = (TRANSACTION_STATE_TOPIC, transaction_partition.partition)
                loading[key] = self._loading.get(key, self._now_ms)
        self._loading = loading

    def _not_loaded(self) -> list[str]:
        slow = [
            f"{topic}-{partition} is still being loaded after a minute: what it coordinates is not served"
            for (topic, partition), since_ms in sorted(self._loading.items())
            if self._now_ms - since_ms > LOAD_MS_MAX
        ]
        unreadable = [
            f"{partition.topic}-{partition.partition} can't be read: what it coordinates is not served"
            for partition in self._coordination.unreadable_partitions
        ]
        return slow + sorted(unreadable)

    def _cleaner_failures(self) -> list[str]:
        deaths = self._cleaning.deaths_since_done
        if not deaths:
            return []
        times = "once" if deaths == 1 else f"{deaths} times"
        return [f"the cleaner's process has died {times} since a log was last compacted"]

    def _uncleanable(self) -> list[str]:
        by_key = self._replicas.by_key
        return sorted(
            [
                f"{by_key[key].topic}-{by_key[key].partition} is not compacted: {reason}"
                for key, reason in self._cleaning.uncleanable.items()
                if key in by_key
            ]
        )

    def _behind(self) -> list[str]:
        by_key, since_ms = self._replicas.by_key, self._now_ms - COMPACTION_MS_MAX
        return sorted(
            [
                f"{by_key[key].topic}-{by_key[key].partition} grows: it is due for compaction for half an hour or more"
                for key, due_ms in self._cleaning.due_since.items()
                if due_ms <= since_ms and key in by_key and key not in self._cleaning.uncleanable
            ]
        )
