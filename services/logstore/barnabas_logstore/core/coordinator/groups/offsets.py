"""Offsets: commit, delete and expire them.

A commit takes effect in memory at once, and is answered when the log has it (`Result.answer`), and so is a fetch: no
offset that a client has seen can be lost.

Source: Kafka's OffsetMetadataManager; KIP-211 for when offsets expire, KIP-496 for their deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import ProducerInTransaction
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from barnabas.wire.primitives import STRING_BYTES_MAX
from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from barnabas_logstore.core.coordinator.groups.meter import GroupMeter
from barnabas_logstore.core.coordinator.groups.records import OffsetCommitValue, offset_key_prefix, offset_record
from barnabas_logstore.core.coordinator.groups.store import (
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsPended,
    PendingOffsets,
    TopicPartition,
    TopicValues,
)
from barnabas_logstore.core.coordinator.runtime.shard import BATCH_OVERHEAD_BYTES, Result, record_bytes
from barnabas_logstore.core.coordinator.runtime.timers import Clock

_GROUP_ID_NOT_FOUND_FROM: Final = 9
"""OffsetCommit from this version on returns GROUP_ID_NOT_FOUND for a group that does not exist."""
_TIMESTAMP_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
_UTF8_BYTES_MAX: Final = 4
"""Of one character."""


def check_commit(group: Group | None, request: OffsetCommitRequest, version: int) -> ErrorCode:
    """Whether this client may commit for the group; from outside of it while it is empty, or to create a simple one."""
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id < 0:
            return ErrorCode.NONE
        missing_is_reported = version >= _GROUP_ID_NOT_FOUND_FROM
        return ErrorCode.GROUP_ID_NOT_FOUND if missing_is_reported else ErrorCode.ILLEGAL_GENERATION
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_transactional_commit(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Whether a transactional producer may commit for the group (KIP-447); one that names no member always may."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    generation_id = request.generation_id
    if group is None:
        return ErrorCode.NONE if generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    if generation_id < 0 and (
        group.state is GroupState.EMPTY or not (request.member_id or request.group_instance_id is not None)
    ):
        return ErrorCode.NONE
    error = group.check_member(request.member_id, request.group_instance_id)
    is_other = generation_id != group.generation_id
    return error or (ErrorCode.ILLEGAL_GENERATION if is_other else ErrorCode.NONE)


def check_delete(group: Group | None) -> ErrorCode:
    """Whether any offset of a group may be deleted: while it has members, only for groups of consumers."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    has_other_members = group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE
    return ErrorCode.NON_EMPTY_GROUP if has_other_members else ErrorCode.NONE


class Offsets:
    """The offsets of all groups of one partition of `__consumer_offsets`. Call while `Result.check`
    allows to write.
    """

    def __init__(
        self,
        config: GroupConfig,
        pending: PendingOffsets,
        result: Result,
        clock: Clock,
        meter: GroupMeter,
    ) -> None:
        self.pending = pending
        self._meter = meter
        self._config = config
        self._result = result
        self._clock = clock

    # --- commit -------------------------------------------------------------------------------------------------------

    def commit(self, group: Group, request: OffsetCommitRequest) -> list[list[ErrorCode]]:
        """Commit what `check_commit` allows. Return the error of each partition, by topic; none if there is no error in
        any.
        """
        wall_ms, retention_ms = self._clock.wall_ms, request.retention_time_ms
        expire_ms = -1 if retention_ms == -1 else min(max(wall_ms + retention_ms, 0), _TIMESTAMP_MAX)
        record_bytes_max = self._result.batch_bytes_max() - BATCH_OVERHEAD_BYTES
        errors: list[list[ErrorCode]] = []
        records: list[Record] = []
        topics: list[TopicValues] = []
        has_failed = False
        byte_count = 0
        for topic in request.topics:
            name = topic.name
            offsets = group.offsets.get(name)
            key_prefix = offset_key_prefix(group.group_id, name) if offsets is None else offsets.key_prefix
            values: dict[int, OffsetCommitValue] = {}
            of_topic: list[ErrorCode] = []
            for asked in topic.partitions:
                metadata = asked.committed_metadata or ""
                if metadata and self._is_too_large(metadata):
                    of_topic.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                    has_failed = True
                    continue
                partition = asked.partition_index
                value = OffsetCommitValue(
                    asked.committed_offset, asked.committed_leader_epoch, metadata, wall_ms, expire_ms
                )
                record = offset_record(key_prefix, partition, value, wall_ms)
                size = record_bytes(record)
                if size > record_bytes_max:
                    of_topic.append(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
                    has_failed = True
                    continue
                of_topic.append(ErrorCode.NONE)
                values[partition] = value
                records.append(record)
                byte_count += size
            if values:
                topics.append((name, values))
            errors.append(of_topic)
        if records:
            self._result.put(OffsetsCommitted(group.group_id, topics, records, byte_count))
            self._meter.offset_commits += len(records)
        return errors if has_failed else []

    def _is_too_large(self, metadata: str) -> bool:
        # Kafka counts as Java does: UTF-16 code units, of which a character beyond the basic plane takes two.
        units = len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le")) // 2
        if units > self._config.offset_metadata_max_bytes:
            return True
        # Whatever the limit is, it has to fit into a string of the record.
        return len(metadata) * _UTF8_BYTES_MAX > STRING_BYTES_MAX and len(metadata.encode()) > STRING_BYTES_MAX

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, producer: ProducerInTransaction
    ) -> list[list[ErrorCode]] | ErrorCode:
        """Write what `check_transactional_commit` allows: it counts when the transaction is committed. Return the error
        of each partition, by topic, or that of all: INVALID_TXN_STATE if the transaction is not confirmed,
        INVALID_PRODUCER_EPOCH.
        """
        wall_ms, group_id = self._clock.wall_ms, request.group_id
        errors: list[list[ErrorCode]] = []
        records: list[Record] = []
        byte_count = 0
        values: list[tuple[TopicPartition, OffsetCommitValue]] = []
        for topic in request.topics:
            key_prefix = offset_key_prefix(group_id, topic.name)
            of_topic: list[ErrorCode] = []
            for asked in topic.partitions:
                metadata = asked.committed_metadata or ""
                is_too_large = bool(metadata) and self._is_too_large(metadata)
                of_topic.append(ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE)
                if not is_too_large:
                    value = OffsetCommitValue(asked.committed_offset, asked.committed_leader_epoch, metadata, wall_ms)
                    record = offset_record(key_prefix, asked.partition_index, value, wall_ms)
                    records.append(record)
                    byte_count += record_bytes(record)
                    values.append(((topic.name, asked.partition_index), value))
            errors.append(of_topic)
        if not records:
            return errors
        if BATCH_OVERHEAD_BYTES + byte_count > self._result.batch_bytes_max():
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        pended = OffsetsPended(producer.producer_id, group_id, values, records, byte_count)
        error = self._result.put_in_transaction(pended, producer)
        if error:
            return error
        self._meter.offset_commits += len(values)
        return errors

    # --- delete -------------------------------------------------------------------------------------------------------

    def delete(self, group: Group, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Delete what `check_delete` allows, except for topics that the group is subscribed to."""
        response = OffsetDeleteResponse()
        for topic in request.topics:
            is_subscribed = group.is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
            results = [OffsetDeleteResponsePartition(each.partition_index, error) for each in topic.partitions]
            response.topics.append(OffsetDeleteResponseTopic(topic.name, results))
            if not is_subscribed:
                self._drop(group, topic.name, [each.partition_index for each in topic.partitions])
        return response

    def delete_all(self, group: Group) -> None:
        for topic in self.topics_of(group):
            self.delete_topic(group, topic)

    def topics_of(self, group: Group) -> list[str]:
        """Return the topics of which a group has offsets, committed or pending."""
        return list(dict.fromkeys([*group.offsets, *(topic for topic, _ in self.pending.places_of(group.group_id))]))

    def delete_topic(self, group: Group, topic: str) -> int:
        """Return how many there were."""
        offsets = group.offsets.get(topic)
        partitions = dict.fromkeys(offsets.partitions if offsets is not None else ())
        pending = self.pending.places_of(group.group_id)
        partitions.update(dict.fromkeys([partition for name, partition in pending if name == topic]))
        self._drop(group, topic, partitions)
        return len(partitions)

    def _drop(self, group: Group, topic: str, partitions: Iterable[int]) -> None:
        """One tombstone is for what is committed and for what is pending."""
        group_id, pending, wall_ms = group.group_id, self.pending, self._clock.wall_ms
        offsets = group.offsets.get(topic)
        known = {} if offsets is None else offsets.partitions
        places = pending.places_of(group_id)
        dropped = [each for each in dict.fromkeys(partitions) if each in known or (topic, each) in places]
        if dropped:
            key_prefix = offset_key_prefix(group_id, topic) if offsets is None else offsets.key_prefix
            records = [offset_record(key_prefix, each, None, wall_ms) for each in dropped]
            byte_count = sum([record_bytes(each) for each in records])
            self._result.put(OffsetsDeleted(group_id, topic, dropped, records, byte_count))

    # --- expiry -------------------------------------------------------------------------------------------------------

    def expire(self, group: Group) -> int:
        """Remove offsets that were not used for `offsets.retention.minutes`. Return how many were checked."""
        since_ms = _idle_since(group)
        if since_ms is None:
            return 0
        count = 0
        for topic, offsets in list(group.offsets.items()):
            if group.is_subscribed_to(topic):
                continue
            count += len(offsets.partitions)
            expired = [
                partition
                for partition, value in offsets.partitions.items()
                if not self.pending.is_pending(group.group_id, (topic, partition)) and self._is_expired(value, since_ms)
            ]
            self._meter.offset_expirations += len(expired)
            self._drop(group, topic, expired)
        return count

    def _is_expired(self, value: OffsetCommitValue, since_ms: int) -> bool:
        wall_ms = self._clock.wall_ms
        if value.expire_timestamp != -1:
            return wall_ms >= value.expire_timestamp
        begin_ms = value.commit_timestamp if since_ms == -1 else since_ms
        return wall_ms - begin_ms >= self._config.offsets_retention_ms


def _idle_since(group: Group) -> int | None:
    """Return from when on a group's offsets age: -1, each from its own commit; None, they do not."""
    if group.protocol_type is None:
        return -1
    if group.state is GroupState.EMPTY:
        return group.state_wall_ms
    return -1 if group.state is GroupState.STABLE and group.subscribed_topics is not None else None
