"""Committed offsets: by group, topic and partition; committed, fetched, deleted, and forgotten with time.

What is committed counts in memory at once, and is answered when the log has it (`Journal.then`), as is what is fetched:
no offset that anybody was told can be taken back.

Source: Kafka's OffsetMetadataManager; KIP-211 for when offsets expire, KIP-496 for their deletion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from services.logstore.core.coordinator.groups.config import GroupConfig
from services.logstore.core.coordinator.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from services.logstore.core.coordinator.groups.journal import Journal
from services.logstore.core.coordinator.groups.records import OffsetCommitKey, OffsetCommitValue, offset_record

_GROUP_ID_NOT_FOUND_FROM: Final = 9
"""OffsetCommit from this version on says so of a group that is not there."""

TopicOffsets = dict[str, dict[int, OffsetCommitValue]]


class Offsets:
    """Of all groups of one partition of `__consumer_offsets`."""

    def __init__(self, config: GroupConfig, groups: dict[str, Group], journal: Journal) -> None:
        self._config = config
        self._groups = groups
        self._journal = journal
        self._by_group: dict[str, TopicOffsets] = {}

    # --- state --------------------------------------------------------------------------------------------------------

    def put(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """What a record says; a tombstone of what is not there is nothing."""
        if value is not None:
            self._by_group.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = value
            return
        topics = self._by_group.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions and topics.pop(key.topic, None) is not None and not topics:
            del self._by_group[key.group]

    def of(self, group_id: str) -> TopicOffsets:
        """To look at."""
        return self._by_group.get(group_id, {})

    # --- commit -------------------------------------------------------------------------------------------------------

    def check_commit(self, request: OffsetCommitRequest, version: int) -> Group | ErrorCode:
        """The group that the commit is for: a simple one is made by its first commit."""
        group = self._groups.get(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        if group is None:
            if generation_id >= 0:
                missing_is_told = version >= _GROUP_ID_NOT_FOUND_FROM
                return ErrorCode.GROUP_ID_NOT_FOUND if missing_is_told else ErrorCode.ILLEGAL_GENERATION
            return Group(request.group_id, -1)
        if generation_id < 0 and group.state is GroupState.EMPTY:
            return group
        if generation_id < 0 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return group

    def commit(self, group: Group, request: OffsetCommitRequest, wall_ms: int) -> OffsetCommitResponse:
        """Write what the request asks of a group that `check_commit` has found, while `Journal.check` allows it."""
        retention_ms = request.retention_time_ms
        expire_ms = -1 if retention_ms == -1 else wall_ms + retention_ms
        response = OffsetCommitResponse()
        for topic in request.topics:
            results: list[OffsetCommitResponsePartition] = []
            response.topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
            for partition in topic.partitions:
                key = OffsetCommitKey(request.group_id, topic.name, partition.partition_index)
                error = self._commit(key, partition, expire_ms, wall_ms)
                results.append(OffsetCommitResponsePartition(partition.partition_index, error))
        if self._by_group.get(request.group_id):
            self._groups.setdefault(request.group_id, group)
        return response

    def _commit(
        self, key: OffsetCommitKey, partition: OffsetCommitRequestPartition, expire_ms: int, wall_ms: int
    ) -> ErrorCode:
        metadata = partition.committed_metadata or ""
        if len(metadata) > self._config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        value = OffsetCommitValue(
            partition.committed_offset, partition.committed_leader_epoch, metadata, wall_ms, expire_ms
        )
        record = offset_record(key, value, wall_ms)
        if not self._journal.fits(record):
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        self._journal.write(record)
        self.put(key, value)
        return ErrorCode.NONE

    # --- delete -------------------------------------------------------------------------------------------------------

    def delete(self, request: OffsetDeleteRequest, wall_ms: int) -> OffsetDeleteResponse:
        group = self._groups.get(request.group_id)
        if group is None:
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        response = OffsetDeleteResponse()
        for topic in request.topics:
            is_subscribed = _is_subscribed(group, topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
            results = [OffsetDeleteResponsePartition(each.partition_index, error) for each in topic.partitions]
            response.topics.append(OffsetDeleteResponseTopic(topic.name, results))
            if not is_subscribed:
                for each in topic.partitions:
                    self._drop(OffsetCommitKey(request.group_id, topic.name, each.partition_index), wall_ms)
        return response

    def delete_all(self, group_id: str, wall_ms: int) -> None:
        for key, _ in list(self._entries(group_id)):
            self._drop(key, wall_ms)

    def topics_deleted(self, topics: set[str], wall_ms: int) -> None:
        """Offsets of topics that are gone go with them."""
        for group_id in list(self._by_group):
            for key, _ in list(self._entries(group_id)):
                if key.topic in topics:
                    self._drop(key, wall_ms)

    def _drop(self, key: OffsetCommitKey, wall_ms: int) -> None:
        if key.partition in self._by_group.get(key.group, {}).get(key.topic, {}):
            self._journal.write(offset_record(key, None, wall_ms))
            self.put(key, None)

    def _entries(self, group_id: str) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        for topic, partitions in self._by_group.get(group_id, {}).items():
            for partition, value in partitions.items():
                yield OffsetCommitKey(group_id, topic, partition), value

    # --- expiry -------------------------------------------------------------------------------------------------------

    def expire(self, group: Group, wall_ms: int) -> bool:
        """Forget what has not been wanted for `offsets.retention.minutes`; whether nothing is left of the group's."""
        since_ms = _idle_since(group)
        if since_ms is not None:
            for key, value in list(self._entries(group.group_id)):
                if not _is_subscribed(group, key.topic) and self._is_expired(value, since_ms, wall_ms):
                    self._drop(key, wall_ms)
        return group.group_id not in self._by_group

    def _is_expired(self, value: OffsetCommitValue, since_ms: int, wall_ms: int) -> bool:
        if value.expire_timestamp != -1:
            return wall_ms >= value.expire_timestamp
        begin_ms = value.commit_timestamp if since_ms == -1 else since_ms
        return wall_ms - begin_ms >= self._config.offsets_retention_ms


def _is_subscribed(group: Group, topic: str) -> bool:
    topics = group.subscribed_topics
    return group.protocol_type == CONSUMER_PROTOCOL_TYPE if topics is None else topic in topics


def _idle_since(group: Group) -> int | None:
    """From when on a group's offsets age: -1, each from its own commit; None, they do not."""
    if group.protocol_type is None:
        return -1
    if group.state is GroupState.EMPTY:
        return group.state_wall_ms
    is_known = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.subscribed_topics is not None
    return -1 if is_known and group.state is GroupState.STABLE else None
