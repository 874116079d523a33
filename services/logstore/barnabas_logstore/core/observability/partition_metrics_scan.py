"""Scan all replicas, groups and transactional ids of a logstore, in slices: what is too expensive to count always."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from barnabas.metrics.family import Sample
from barnabas.metrics.group_families import GROUP_MEMBERS, GROUP_OFFSETS, GROUPS, GROUPS_BY_STATE
from barnabas.metrics.replica_families import (
    AT_MIN_ISR_PARTITIONS,
    FOLLOWER_LAG_RECORDS,
    FOLLOWER_LAGGING_PARTITIONS,
    HIGH_WATERMARK_LAG_RECORDS,
    LEADERS,
    OFFLINE_REPLICAS,
    PARTITIONS,
    UNDER_MIN_ISR_PARTITIONS,
    UNDER_REPLICATED_PARTITIONS,
)
from barnabas.metrics.topic_families import LOG_SEGMENTS, LOG_SIZE
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from barnabas_logstore.core.coordinator.groups.shard import GroupShard
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.observability.transaction_scan import TransactionScan
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas


class PartitionMetricsScan:
    """Partitions that are added or removed during the scan may be missed; each is read in its state at that moment."""

    def __init__(
        self, replicas: Replicas, coordinated: Sequence[LedShard[GroupShard]], transactions: TransactionScan
    ) -> None:
        self._transactions = transactions
        self._left = list(replicas.by_key.values())
        self._groups_left = [group for each in coordinated for group in each.shard.groups]
        self._partitions = len(self._left)
        self._offline = len(replicas.without_disk)
        self._leaders = 0
        self._under_replicated = 0
        self._under_min_isr = 0
        self._at_min_isr = 0
        self._uncommitted_records = 0
        self._lag_records: dict[int, int] = {}
        self._lagging_partitions: Counter[int] = Counter()
        self._log_bytes: Counter[str] = Counter()
        self._log_segments: Counter[str] = Counter()
        self._group_states: Counter[GroupState] = Counter()
        self._members = 0
        self._offsets = 0

    def step(self, count_max: int) -> bool:
        """Scan the next `count_max` replicas, groups and transactional ids. Return True when all have been scanned."""
        for partition in self._left[-count_max:]:
            self._look_at(partition)
        del self._left[-count_max:]
        for group in self._groups_left[-count_max:]:
            self._look_at_group(group)
        del self._groups_left[-count_max:]
        return self._transactions.step(count_max) and not self._left and not self._groups_left

    def _look_at(self, partition: Partition) -> None:
        log = partition.log
        if not partition.online:
            self._offline += 1
            return
        self._log_bytes[partition.meter.label] += log.byte_count
        self._log_segments[partition.meter.label] += len(log.segments)
        if not partition.leading:
            return
        self._leaders += 1
        self._transactions.look_at_log(log)
        in_sync = partition.isr.committed
        self._under_replicated += len(in_sync) < len(partition.replicas)
        self._under_min_isr += not partition.in_sync_replicas_at_minimum
        self._at_min_isr += len(in_sync) == partition.in_sync_replicas_min
        self._uncommitted_records += log.log_end_offset - partition.high_watermark
        for node_id, follower in partition.followers.items():
            # A follower that has not been heard from yet lags by the whole log.
            lag = log.log_end_offset - max(follower.log_end_offset, log.log_start_offset)
            self._lag_records[node_id] = max(lag, self._lag_records.get(node_id, 0))
            self._lagging_partitions[node_id] += lag > 0

    def _look_at_group(self, group: Group) -> None:
        self._group_states[group.state] += 1
        self._members += len(group.members)
        self._offsets += sum([len(offsets.partitions) for offsets in group.offsets.values()])

    def samples(self) -> Iterator[Sample]:
        yield Sample(PARTITIONS, (), self._partitions)
        yield Sample(LEADERS, (), self._leaders)
        yield Sample(OFFLINE_REPLICAS, (), self._offline)
        yield Sample(UNDER_REPLICATED_PARTITIONS, (), self._under_replicated)
        yield Sample(UNDER_MIN_ISR_PARTITIONS, (), self._under_min_isr)
        yield Sample(AT_MIN_ISR_PARTITIONS, (), self._at_min_isr)
        yield Sample(HIGH_WATERMARK_LAG_RECORDS, (), self._uncommitted_records)
        for node_id, lag in sorted(self._lag_records.items()):
            yield Sample(FOLLOWER_LAG_RECORDS, (str(node_id),), lag)
            yield Sample(FOLLOWER_LAGGING_PARTITIONS, (str(node_id),), self._lagging_partitions[node_id])
        for label, byte_count in self._log_bytes.items():
            yield Sample(LOG_SIZE, (label,), byte_count)
            yield Sample(LOG_SEGMENTS, (label,), self._log_segments[label])
        yield Sample(GROUPS, (), self._group_states.total())
        for state in GroupState:
            yield Sample(GROUPS_BY_STATE, (state.value,), self._group_states[state])
        yield Sample(GROUP_MEMBERS, (), self._members)
        yield Sample(GROUP_OFFSETS, (), self._offsets)
        yield from self._transactions.samples()
