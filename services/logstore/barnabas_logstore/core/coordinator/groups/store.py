"""What one partition of `__consumer_offsets` says: committed and pending offsets, and the last record of each group.

`GroupStore.replay` alone changes it, live and at load. What the members of a group do since its last record is soft,
and not here: see `Rebalancing`.

Offsets that producers have sent within transactions (KIP-98) are pending until a marker commits or drops them, and stay
so at the log's end. What is newer in the log counts: an offset that was committed or deleted after a pending one is not
changed by it. A pending offset that has been overtaken this way is still unstable for clients that ask for stable
offsets (KIP-447), until its transaction is over; one that was deleted is not.

Source: Kafka's OffsetMetadataManager, its `pendingTransactionalOffsets` and `openTransactions`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, TypeAlias

from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.groups.group import Group, TopicOffsets
from barnabas_logstore.core.coordinator.groups.records import GroupMetadataValue, OffsetCommitValue, offset_key_prefix
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.runtime.shard import FROM_LOG, NOT_WRITTEN, Change, Store
from barnabas_logstore.core.coordinator.runtime.timers import Clock

TopicPartition: TypeAlias = tuple[str, int]
TopicValues: TypeAlias = tuple[str, dict[int, OffsetCommitValue]]
"""A topic, and values by partition."""


class OffsetsCommitted(Change):
    """Offsets of one group. A topic may come more than once: the last value of a partition counts."""

    __slots__ = ("group_id", "topics")

    def __init__(self, group_id: str, topics: list[TopicValues], records: list[Record], byte_count: int) -> None:
        self.records = records
        self.byte_count = byte_count
        self.group_id = group_id
        self.topics = topics


class OffsetsPended(Change):
    """Offsets of one group within a producer's transaction, one for each record."""

    __slots__ = ("group_id", "producer_id", "values")

    def __init__(
        self,
        producer_id: int,
        group_id: str,
        values: list[tuple[TopicPartition, OffsetCommitValue]],
        records: list[Record],
        byte_count: int,
    ) -> None:
        self.records = records
        self.byte_count = byte_count
        self.producer_id = producer_id
        self.group_id = group_id
        self.values = values


class OffsetsDeleted(Change):
    """A group has no offsets of these partitions of a topic any more, neither committed nor pending."""

    __slots__ = ("group_id", "partitions", "topic")

    def __init__(
        self, group_id: str, topic: str, partitions: list[int], records: list[Record], byte_count: int
    ) -> None:
        self.records = records
        self.byte_count = byte_count
        self.group_id = group_id
        self.topic = topic
        self.partitions = partitions


class GroupStored(Change):
    """The members of a group, its generation and assignments."""

    __slots__ = ("group_id", "value")

    def __init__(self, group_id: str, value: GroupMetadataValue, records: list[Record], byte_count: int) -> None:
        self.records = records
        self.byte_count = byte_count
        self.group_id = group_id
        self.value = value


class GroupForgotten(Change):
    """There is no such group any more, but for its offsets if it has any."""

    __slots__ = ("group_id",)

    def __init__(self, group_id: str, records: list[Record], byte_count: int) -> None:
        self.records = records
        self.byte_count = byte_count
        self.group_id = group_id


class TransactionEnded(Change):
    """The marker of a producer's transaction, whose record the log itself makes."""

    __slots__ = ("is_commit", "producer_id")

    def __init__(self, producer_id: int, *, is_commit: bool) -> None:
        self.records = FROM_LOG
        self.byte_count = 0
        self.producer_id = producer_id
        self.is_commit = is_commit


class _Pending(NamedTuple):
    record_offset: int
    value: OffsetCommitValue


_OfProducer: TypeAlias = dict[tuple[str, TopicPartition], _Pending | None]
"""By group, topic and partition; None: overtaken."""


class PendingOffsets:
    """Of one partition of `__consumer_offsets`."""

    __slots__ = ("_by_group", "_by_producer", "_groups")

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._by_producer: dict[int, _OfProducer] = {}
        self._by_group: dict[str, dict[TopicPartition, dict[int, None]]] = {}
        """The producers that have any, by group, topic and partition."""

    def add(
        self, producer_id: int, group_id: str, place: TopicPartition, value: OffsetCommitValue, record_offset: int
    ) -> None:
        """A record of a transaction is in the log."""
        self._by_producer.setdefault(producer_id, {})[group_id, place] = _Pending(record_offset, value)
        self._by_group.setdefault(group_id, {}).setdefault(place, {})[producer_id] = None

    @property
    def is_empty(self) -> bool:
        return not self._by_group

    def is_pending(self, group_id: str, place: TopicPartition) -> bool:
        """Whether an open transaction has an offset for it."""
        of_group = self._by_group.get(group_id)
        return of_group is not None and place in of_group

    def places_of(self, group_id: str) -> Collection[TopicPartition]:
        """Return topics and partitions for which a group has pending offsets; read only."""
        return self._by_group.get(group_id, ())

    def overtake(self, group_id: str, place: TopicPartition, record_offset: int) -> None:
        """An offset is committed by a record at `record_offset`, or NOT_WRITTEN."""
        of_group = self._by_group.get(group_id)
        for producer_id in of_group.get(place, ()) if of_group is not None else ():
            of_producer = self._by_producer[producer_id]
            pending = of_producer[group_id, place]
            if pending is not None and pending.record_offset < record_offset:
                of_producer[group_id, place] = None

    def delete(self, group_id: str, place: TopicPartition) -> None:
        """A tombstone is in the log: it counts for what is pending too."""
        of_group = self._by_group.get(group_id)
        producers = None if of_group is None else of_group.get(place)
        if not producers:
            return
        for producer_id in list(producers):
            del self._by_producer[producer_id][group_id, place]
            self._forget(producer_id, group_id, place)
            if not self._by_producer[producer_id]:
                del self._by_producer[producer_id]

    def end(self, producer_id: int, wall_ms: int, *, is_commit: bool) -> None:
        """The marker of a producer's transaction is in the log."""
        for (group_id, place), pending in self._by_producer.pop(producer_id, {}).items():
            self._forget(producer_id, group_id, place)
            if is_commit and pending is not None:
                topic, partition = place
                put_offsets(self._groups.get_or_add(group_id, wall_ms), topic, {partition: pending.value})
                self.overtake(group_id, place, pending.record_offset)
            group = self._groups.get(group_id)
            if group is not None and group_id not in self._by_group:
                self._groups.remove_if_unused(group)

    def stored(self) -> object:
        """Return a copy, to be compared with another one."""
        return {producer_id: dict(of_producer) for producer_id, of_producer in self._by_producer.items()}

    def _forget(self, producer_id: int, group_id: str, place: TopicPartition) -> None:
        of_group = self._by_group[group_id]
        producers = of_group[place]
        del producers[producer_id]
        if not producers:
            del of_group[place]
            if not of_group:
                del self._by_group[group_id]


def put_offsets(group: Group, topic: str, values: dict[int, OffsetCommitValue]) -> None:
    """Set a group's offsets of one topic, by partition; there is at least one."""
    offsets = group.offsets.get(topic)
    if offsets is None:
        offsets = group.offsets[topic] = TopicOffsets(offset_key_prefix(group.group_id, topic))
    offsets.partitions.update(values)


def drop_offsets(group: Group, topic: str, partitions: Iterable[int]) -> None:
    """Remove those of a group's offsets that there are."""
    offsets = group.offsets.get(topic)
    if offsets is None:
        return
    for partition in partitions:
        offsets.partitions.pop(partition, None)
    if not offsets.partitions:
        del group.offsets[topic]


class GroupStore(Store):
    """`groups` also has what is soft of each group: members, generations, responses that wait."""

    def __init__(self, groups: Groups, clock: Clock) -> None:
        self.groups = groups
        self.pending = PendingOffsets(groups)
        self._clock = clock

    def replay(self, change: Change, offset: int) -> None:
        groups, pending = self.groups, self.pending
        if isinstance(change, OffsetsCommitted):
            group = groups.get_or_add(change.group_id, self._clock.wall_ms)
            for topic, values in change.topics:
                # As `put_offsets`, without its call: this is what each record of a log costs.
                offsets = group.offsets.get(topic)
                if offsets is None:
                    offsets = group.offsets[topic] = TopicOffsets(offset_key_prefix(group.group_id, topic))
                offsets.partitions.update(values)
            if not pending.is_empty:
                self._overtake(change, offset)
        elif isinstance(change, OffsetsPended):
            for record_offset, (place, value) in enumerate(change.values, offset):
                pending.add(change.producer_id, change.group_id, place, value, record_offset)
        elif isinstance(change, OffsetsDeleted):
            self._delete(change)
        elif isinstance(change, GroupStored):
            group = groups.get_or_add(change.group_id, self._clock.wall_ms)
            group.stored = change.value
            if offset != NOT_WRITTEN:
                # No call waits for a step of it yet; live, its step is what its members do.
                group.step = groups.steps.count
        elif isinstance(change, GroupForgotten):
            self._forget(change.group_id)
        else:
            assert isinstance(change, TransactionEnded)
            pending.end(change.producer_id, self._clock.wall_ms, is_commit=change.is_commit)

    def _overtake(self, change: OffsetsCommitted, offset: int) -> None:
        for topic, values in change.topics:
            for partition in values:
                self.pending.overtake(change.group_id, (topic, partition), offset)

    def _delete(self, change: OffsetsDeleted) -> None:
        group_id, topic = change.group_id, change.topic
        if not self.pending.is_empty:
            for partition in change.partitions:
                self.pending.delete(group_id, (topic, partition))
        group = self.groups.get(group_id)
        if group is not None:
            drop_offsets(group, topic, change.partitions)
            self.groups.remove_if_unused(group)

    def _forget(self, group_id: str) -> None:
        """Committed offsets of a group are independent of its members, and outlive them."""
        known = self.groups.get(group_id)
        if known is not None:
            self.groups.remove(group_id)
            if known.offsets:
                self.groups.get_or_add(group_id, self._clock.wall_ms).offsets = known.offsets

    def stored(self) -> object:
        offsets = {
            group.group_id: {topic: dict(each.partitions) for topic, each in group.offsets.items()}
            for group in self.groups
            if group.offsets
        }
        groups = {group.group_id: group.stored for group in self.groups if group.stored is not None}
        return offsets, groups, self.pending.stored()
