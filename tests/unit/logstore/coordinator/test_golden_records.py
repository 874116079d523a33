"""What a coordinator writes is, byte for byte, what Kafka 4.4 writes, and so what it reads; what any Kafka has written
is read. A cluster's `__consumer_offsets` can be taken over in either direction.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.internal_topics import partition_of_group
from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState, Steps
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    offset_key_prefix,
    offset_record,
    read_record,
)
from barnabas_logstore.core.coordinator.groups.stored_groups import group_forgotten, group_stored
from tests.unit.logstore.coordinator.golden import GOLDEN_FILE, golden_partitions, golden_records, kafka_writes
from tests.unit.logstore.coordinator.support import WALL_AT_START_MS
from tests.unit.wire.golden import HAS_KAFKA, WITHOUT_KAFKA

GOLDEN = golden_records()
PARTITIONS = golden_partitions()


def offset(value: OffsetCommitValue | None) -> Record:
    return offset_record(offset_key_prefix("group", "topic"), 7, value, 0)


def member(member_id: str, group_instance_id: str | None, assignment: bytes) -> Member:
    protocols = {"range": b"metadata"}
    return Member(member_id, group_instance_id, "client", "/10.0.0.7", 60_000, 10_000, protocols, assignment)


def group(generation_id: int, *members: Member) -> Record:
    stored = Group("group", WALL_AT_START_MS, Steps())
    stored.protocol_type = "consumer"
    stored.generation_id = generation_id
    for each in members:
        stored.add(each, "consumer")
        stored.protocol_name = "range"
        stored.state = GroupState.STABLE
    if members:
        stored.leader_id = "member"
    return group_stored(stored, 0).records[0]


WRITTEN = {
    "written offset": offset(OffsetCommitValue(42, 3, "note é", WALL_AT_START_MS)),
    "written offset without epoch": offset(OffsetCommitValue(42, -1, "", WALL_AT_START_MS)),
    "written offset with expiry": offset(OffsetCommitValue(42, -1, "note", WALL_AT_START_MS, WALL_AT_START_MS + 10)),
    "written offset tombstone": offset(None),
    # In the order of a Java map.
    "written group": group(5, member("static", "instance", b"its share"), member("member", None, b"share")),
    "written empty group": group(6),
    "written group tombstone": group_forgotten("group", 0).records[0],
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_what_kafka_writes(name: str) -> None:
    assert (WRITTEN[name].key, WRITTEN[name].value) == GOLDEN[name]


@pytest.mark.parametrize("name", [name for name in GOLDEN if name.startswith("offset ")])
def test_offsets_of_every_version_are_read(name: str) -> None:
    version = int(name.removeprefix("offset ")[0])
    expire_ms = WALL_AT_START_MS + 10 if version == 1 else -1
    said = OffsetCommitValue(42, 3 if version >= 3 else -1, "note", WALL_AT_START_MS, expire_ms)
    assert read_record(*GOLDEN[name]) == (OffsetCommitKey("group", "topic", 7), said)


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version: int) -> None:
    def metadata(member_id: str, instance_id: str | None, share: bytes) -> MemberMetadata:
        instance_id = instance_id if version >= 3 else None
        rebalance_timeout = 60_000 if version >= 1 else -1
        return MemberMetadata(
            member_id, instance_id, "client", "/10.0.0.7", rebalance_timeout, 10_000, b"metadata", share
        )

    members = [metadata("member", None, b"share"), metadata("static", "instance", b"its share")]
    since_ms = WALL_AT_START_MS if version >= 2 else -1
    said = GroupMetadataValue("consumer", 5, "range", "member", since_ms, members)
    assert read_record(*GOLDEN[f"group {version}"]) == (GroupMetadataKey("group"), said)


def test_an_offset_with_the_id_of_its_topic_is_read() -> None:
    """Kafka writes it as v4 where the client has said the id (OffsetCommit v10); the name is what counts here."""
    said = OffsetCommitValue(42, 3, "", WALL_AT_START_MS)
    assert read_record(*GOLDEN["written offset with topic id"]) == (OffsetCommitKey("group", "topic", 7), said)


def test_the_new_group_that_kafka_writes_down_before_it_has_members_is_read() -> None:
    said = GroupMetadataValue("", 0, None, None, -1, [])
    assert read_record(*GOLDEN["written new group"]) == (GroupMetadataKey("group"), said)


@pytest.mark.parametrize("group_id", PARTITIONS, ids=lambda group_id: group_id[:20])
def test_a_group_has_the_partition_that_kafka_gives_it(group_id: str) -> None:
    assert partition_of_group(group_id, 50) == PARTITIONS[group_id]


@pytest.mark.java
@pytest.mark.skipif(not HAS_KAFKA, reason=WITHOUT_KAFKA)
def test_kafka_still_writes_the_golden_records() -> None:
    assert kafka_writes() == GOLDEN_FILE.read_text()
