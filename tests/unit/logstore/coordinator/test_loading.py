"""How a coordinator reads a log: all that Kafka has ever written there, and what should never be there."""

from __future__ import annotations

import pytest

from barnabas.runtime.compression import compress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas.wire.record_batch import HEADER_BYTES, Compression, Record, assemble_batch, build_batch, parse_header
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    _encode,
    group_record,
    offset_key_prefix,
    offset_record,
)
from barnabas_logstore.core.coordinator.runtime.loading import RECORDS_PER_STEP
from tests.unit.logstore.coordinator.support import WALL_AT_START_MS, FakeLog, World

COMMIT_MARKER = Record(b"\0\0\0\1", b"\0\0\0\0\0\0")
ABORT_MARKER = Record(b"\0\0\0\0", b"\0\0\0\0\0\0")


def offset(value: int | None, *, group: str = "group", topic: str = "topic", partition: int = 0) -> Record:
    said = None if value is None else OffsetCommitValue(value, -1, "", WALL_AT_START_MS)
    return offset_record(offset_key_prefix(group, topic), partition, said, WALL_AT_START_MS)


def group(**changes: object) -> GroupMetadataValue:
    members = [
        MemberMetadata("member", None, "client", "/10.0.0.7", 60_000, 10_000, b"metadata", b"share"),
        MemberMetadata("static", "instance", "client", "/10.0.0.8", 60_000, 10_000, b"metadata", b"its share"),
    ]
    fields = {"protocol_type": "consumer", "generation": 5, "protocol": "range", "leader": "member"}
    return GroupMetadataValue(**{**fields, "current_state_timestamp": 7, "members": members, **changes})  # type: ignore[arg-type]


def loaded(*batches: bytes | list[Record]) -> World:
    log = FakeLog()
    for batch in batches:
        built = build_batch(batch) if isinstance(batch, list) else batch
        log.add(built, parse_header(built).records_count)
    return World(log=log)


def transactional(producer_id: int, *records: Record, is_control: bool = False) -> bytes:
    return build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=-1 if is_control else 0,
        is_transactional=True,
        is_control=is_control,
    )


def marker(producer_id: int, record: Record) -> bytes:
    return transactional(producer_id, record, is_control=True)


def joined(member_id: str = "member") -> JoinGroupResponse:
    return JoinGroupResponse(generation_id=5, member_id=member_id, protocol_name="range")


class TestVersions:
    @pytest.mark.parametrize("version", range(5))
    def test_offsets(self, version: int) -> None:
        value = OffsetCommitValue(42, 3 if version >= 3 else -1, "note", WALL_AT_START_MS)
        for key_version in (0, 1):
            key = _encode(OffsetCommitKey("group", "topic", 0), key_version)
            assert loaded([Record(key, _encode(value, version))]).fetch_offset() == 42

    @pytest.mark.parametrize("version", range(5))
    def test_groups(self, version: int) -> None:
        key = _encode(GroupMetadataKey("group"), 2)
        world = loaded([Record(key, _encode(group(), version))])
        assert world.heartbeat(joined()) == ErrorCode.NONE
        assert world.synced(world.sync(joined("static"))).assignment == b"its share"
        is_known = world.heartbeat(joined("static"), group_instance_id="instance") == ErrorCode.NONE
        assert is_known == (version >= 3)

    def test_before_v1_the_session_timeout_is_that_of_rebalances(self) -> None:
        world = loaded([Record(_encode(GroupMetadataKey("group"), 2), _encode(group(), 0))])
        loaded_group = world.groups.get("group")
        assert loaded_group is not None
        assert loaded_group.rebalance_timeout_ms == 10_000

    @pytest.mark.parametrize("kind", [3, 4, 5, 6, 7, 8, 10, 20])
    def test_records_of_other_protocols_are_passed_over(self, kind: int) -> None:
        world = loaded([offset(1), Record(kind.to_bytes(2, "big") + b"anything", b"\0\0"), offset(2)])
        assert world.fetch_offset() == 2
        assert not world.coordinator.problems


class TestOrder:
    def test_the_newest_counts(self) -> None:
        assert loaded([offset(1), offset(2)], [offset(3)]).fetch_offset() == 3
        assert loaded([offset(1)], [offset(None)]).fetch_offset() == -1

    def test_a_tombstone_of_a_group(self) -> None:
        world = loaded([group_record(GroupMetadataKey("group"), value, 0) for value in (group(), None)])
        assert world.heartbeat(joined()) == ErrorCode.UNKNOWN_MEMBER_ID
        assert not list(world.groups)

    def test_offsets_outlive_the_members_and_are_found_by_listing_groups(self) -> None:
        """Compaction may leave an older offset behind the tombstone of the group."""
        world = loaded([offset(1), *(group_record(GroupMetadataKey("group"), value, 0) for value in (group(), None))])
        assert world.fetch_offset() == 1
        assert [each.group_id for each in world.groups] == ["group"]

    def test_a_group_and_its_offsets_in_any_order(self) -> None:
        record = group_record(GroupMetadataKey("group"), group(), 0)
        for records in ([offset(1), record], [record, offset(1)]):
            world = loaded(records)
            assert world.fetch_offset() == 1
            assert world.heartbeat(joined()) == ErrorCode.NONE

    def test_a_log_of_many_pieces(self) -> None:
        count = 3 * RECORDS_PER_STEP + 1
        world = loaded([offset(each, partition=each) for each in range(count)], [offset(7, topic="last")])
        assert world.fetch_offset(partition=count - 1) == count - 1
        assert world.fetch_offset(topic="last") == 7


class TestCompressed:
    @pytest.mark.parametrize("codec", [codec for codec in Compression if codec != Compression.NONE])
    def test_batches(self, codec: Compression) -> None:
        plain = build_batch([offset(each, partition=each) for each in range(10)])
        header = parse_header(plain)
        squeezed = compress(codec, plain[HEADER_BYTES:], None)
        world = loaded(assemble_batch(header._replace(attributes=header.attributes | codec), squeezed), [offset(5)])
        assert (world.fetch_offset(), world.fetch_offset(partition=9)) == (5, 9)

    def test_what_cannot_be_opened_is_passed_over(self) -> None:
        header = parse_header(build_batch([offset(1)]))
        broken = assemble_batch(header._replace(attributes=Compression.ZSTD), b"nonsense")
        world = loaded([offset(1)], broken, [offset(2, partition=1)])
        assert world.fetch_offset(partition=1) == 2
        assert world.coordinator.problems == [
            "records of __consumer_offsets-7 that can't be read: 1; the offsets and groups in them are not known"
        ]


class TestTransactions:
    def test_count_when_they_are_committed(self) -> None:
        assert loaded([offset(1)], transactional(9, offset(2))).fetch_offset() == 1
        assert loaded([offset(1)], transactional(9, offset(2)), marker(9, COMMIT_MARKER)).fetch_offset() == 2
        assert loaded([offset(1)], transactional(9, offset(2)), marker(9, ABORT_MARKER)).fetch_offset() == 1

    def test_each_producer_has_its_own(self) -> None:
        world = loaded(
            transactional(8, offset(1)),
            transactional(9, offset(2, partition=1)),
            marker(9, COMMIT_MARKER),
            marker(8, ABORT_MARKER),
        )
        assert (world.fetch_offset(), world.fetch_offset(partition=1)) == (-1, 2)

    def test_the_newest_record_counts_not_the_newest_marker(self) -> None:
        assert loaded(transactional(9, offset(1)), [offset(2)], marker(9, COMMIT_MARKER)).fetch_offset() == 2
        first, second = transactional(8, offset(1)), transactional(9, offset(2))
        assert loaded(first, second, marker(9, COMMIT_MARKER), marker(8, COMMIT_MARKER)).fetch_offset() == 2
        assert loaded(first, second, marker(8, COMMIT_MARKER), marker(9, COMMIT_MARKER)).fetch_offset() == 2

    def test_a_deletion_counts_for_open_ones_too(self) -> None:
        assert loaded(transactional(9, offset(1)), [offset(None)], marker(9, COMMIT_MARKER)).fetch_offset() == -1


class TestBrokenRecords:
    @pytest.mark.parametrize(
        "record",
        [
            Record(None, b"x"),
            Record(b"", b"x"),
            Record(b"\0", b"x"),
            Record(b"\0\1\0\5abc", b"\0\3"),
            Record(offset(1).key, b""),
            Record(offset(1).key, b"\0\5"),
            Record(offset(1).key, b"\0\3\0"),
            Record(_encode(GroupMetadataKey("group"), 2), b"\0\3\xff"),
            group_record(GroupMetadataKey("group"), group(protocol=None), 0),
            group_record(GroupMetadataKey("group"), group(protocol_type=""), 0),
            group_record(GroupMetadataKey("group"), group(members=[group().members[0]] * 2), 0),
            group_record(GroupMetadataKey("group"), group(members=[group().members[1]] * 2), 0),
        ],
    )
    def test_are_passed_over(self, record: Record) -> None:
        world = loaded([offset(1), record, offset(2)])
        assert world.fetch_offset() == 2
        (problem,) = world.coordinator.problems
        assert problem.startswith("records of __consumer_offsets-7 that can't be read: 1")


class TestRestoredGroups:
    def test_an_empty_one_keeps_its_generation(self) -> None:
        value = group(members=[], leader=None, protocol=None)
        world = loaded([group_record(GroupMetadataKey("group"), value, 0)])
        _, request = world.first_join()
        world.advance(1_000)
        assert world.joined(request).generation_id == 6

    def test_a_leader_that_is_not_there_is_replaced_by_the_next_rebalance(self) -> None:
        world = loaded([group_record(GroupMetadataKey("group"), group(leader="nobody"), 0)])
        assert world.body_of(world.sync(joined()), SyncGroupResponse).assignment == b"share"
        request = world.join("member")
        world.join("static", group_instance_id="instance")
        assert world.joined(request).leader == "member"

    def test_the_last_generation_there_is_is_followed_by_the_first(self) -> None:
        value = group(generation=0x7FFF_FFFF, members=[], leader=None, protocol=None)
        world = loaded([group_record(GroupMetadataKey("group"), value, 0)])
        _, request = world.first_join()
        world.advance(1_000)
        assert world.joined(request).generation_id == 1
