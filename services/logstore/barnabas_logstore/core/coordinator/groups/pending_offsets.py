"""Offsets that producers have sent within transactions (KIP-98): pending until a marker commits or drops them.

What is newer in the log counts: an offset that was committed or deleted after a pending one is not changed by it. A
pending offset that has been overtaken this way is still unstable for clients that ask for stable offsets (KIP-447),
until its transaction is over; one that was deleted is not.

Source: `pendingTransactionalOffsets` and `openTransactions` of Kafka's OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from barnabas_logstore.core.coordinator.groups.records import OffsetCommitValue
from barnabas_logstore.core.coordinator.groups.registry import Groups, put_offset

TopicPartition: TypeAlias = tuple[str, int]


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

    def overtake(self, group_id: str, place: TopicPartition, record_offset: int | None = None) -> None:
        """An offset is committed by a record at `record_offset`; None: by one behind all others in the log."""
        of_group = self._by_group.get(group_id)
        for producer_id in of_group.get(place, ()) if of_group is not None else ():
            of_producer = self._by_producer[producer_id]
            pending = of_producer[group_id, place]
            if pending is not None and (record_offset is None or pending.record_offset < record_offset):
                of_producer[group_id, place] = None

    def delete(self, group_id: str, place: TopicPartition) -> bool:
        """A tombstone is in the log: it counts for what is pending too. Return whether anything was."""
        of_group = self._by_group.get(group_id)
        producers = None if of_group is None else of_group.get(place)
        if not producers:
            return False
        for producer_id in list(producers):
            del self._by_producer[producer_id][group_id, place]
            self._forget(producer_id, group_id, place)
            if not self._by_producer[producer_id]:
                del self._by_producer[producer_id]
        return True

    def end(self, producer_id: int, wall_ms: int, *, is_commit: bool) -> None:
        """The marker of a producer's transaction is in the log."""
        for (group_id, place), pending in self._by_producer.pop(producer_id, {}).items():
            self._forget(producer_id, group_id, place)
            if is_commit and pending is not None:
                put_offset(self._groups.get_or_add(group_id, wall_ms), *place, pending.value)
                self.overtake(group_id, place, pending.record_offset)
            group = self._groups.get(group_id)
            if group is not None and group_id not in self._by_group:
                self._groups.remove_if_unused(group)

    def _forget(self, producer_id: int, group_id: str, place: TopicPartition) -> None:
        of_group = self._by_group[group_id]
        producers = of_group[place]
        del producers[producer_id]
        if not producers:
            del of_group[place]
            if not of_group:
                del self._by_group[group_id]
