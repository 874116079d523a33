"""The kind of coordinator that has groups of the classic protocol, and the offsets that they commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.cluster.internal_topics import OFFSETS_TOPIC
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.markers import COMMIT, TransactionEnd, control_type_of
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.record_batch import BatchHeader, Record
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.group import Steps
from barnabas_logstore.core.coordinator.groups.joining import MakeMemberId
from barnabas_logstore.core.coordinator.groups.listing import list_groups
from barnabas_logstore.core.coordinator.groups.member_bytes import MemberBytes
from barnabas_logstore.core.coordinator.groups.meter import GroupMeter
from barnabas_logstore.core.coordinator.groups.pending_joins import PendingJoins
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitValue,
    read_record,
)
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.groups.shard import GroupParts, GroupShard
from barnabas_logstore.core.coordinator.groups.store import (
    GroupForgotten,
    GroupStore,
    GroupStored,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsPended,
    TransactionEnded,
)
from barnabas_logstore.core.coordinator.groups.stored_groups import check_stored
from barnabas_logstore.core.coordinator.runtime.shard import FROM_LOG, Change, Periodic, Result, ShardKind, Store


class GroupKind(ShardKind[GroupShard]):
    """`make_member_id` returns unique ids with the given prefix: randomness belongs to the host."""

    def __init__(self, config: GroupConfig, make_member_id: MakeMemberId) -> None:
        super().__init__(OFFSETS_TOPIC, ApiKey.LIST_GROUPS, lists_first=False, lists_uncommitted=False)
        self.steps = Steps()
        """Never starts over: the same epoch of a partition may be loaded twice."""
        self.meter = GroupMeter()
        self._parts = GroupParts(
            config, self.clock, self.timers, self.meter, PendingJoins(), MemberBytes(), make_member_id, self.held
        )
        self.periodic = [Periodic(config.offsets_retention_check_interval_ms, _begin_expiry)]

    @property
    def unreadable(self) -> str:
        return "the offsets and groups in them are not known"

    def new_store(self) -> GroupStore:
        return GroupStore(Groups(self.steps), self.clock)

    def open(self, partition: int, leader_epoch: int, store: Store, result: Result) -> GroupShard:
        assert isinstance(store, GroupStore)
        return GroupShard(partition, leader_epoch, store, result, self._parts)

    def decode(self, header: BatchHeader, record: Record) -> Change | None:
        if header.is_control:
            is_commit = control_type_of(None if record.key is None else bytes(record.key)) == COMMIT
            return TransactionEnded(header.producer_id, is_commit=is_commit)
        entry = read_record(record.key, record.value)
        if entry is None:
            return None
        key, value = entry
        if isinstance(key, GroupMetadataKey):
            assert not isinstance(value, OffsetCommitValue)
            if value is None:
                return GroupForgotten(key.group, FROM_LOG, 0)
            check_stored(key.group, value)
            return GroupStored(key.group, value, FROM_LOG, 0)
        assert not isinstance(value, GroupMetadataValue)
        if value is None:
            return OffsetsDeleted(key.group, key.topic, [key.partition], FROM_LOG, 0)
        if header.is_transactional:
            return OffsetsPended(header.producer_id, key.group, [((key.topic, key.partition), value)], FROM_LOG, 0)
        return OffsetsCommitted(key.group, [(key.topic, {key.partition: value})], FROM_LOG, 0)

    def change_of_marker(self, ended: TransactionEnd) -> Change:
        return TransactionEnded(ended.producer_id, is_commit=ended.marker.is_commit)

    def leadership_changed(self) -> None:
        self.steps.advance_all()

    def reopened(self, before: GroupShard, after: GroupShard) -> bool:
        """Offsets of deleted topics have still to be removed."""
        after.expiry.delete_topics(before.expiry.deleted_topics)
        return bool(before.expiry.deleted_topics)

    def new_list(self) -> Response:
        return ListGroupsResponse()

    def list_in_steps(self, request: Request, shards: Sequence[GroupShard], response: Response) -> Iterator[None]:
        assert isinstance(request, ListGroupsRequest)
        assert isinstance(response, ListGroupsResponse)
        groups = [group for shard in shards for group in shard.groups]
        for listed in list_groups(request, groups):
            if listed is not None:
                response.groups.append(listed)
            yield


def _begin_expiry(shard: GroupShard) -> None:
    shard.expiry.begin()
