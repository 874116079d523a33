"""Records of `__consumer_offsets`: what is packed by hand is what the schema says."""

from __future__ import annotations

import pytest

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
    read_record,
)

VALUES = [
    OffsetCommitValue(0, -1, "", 0),
    OffsetCommitValue(-1, 0, "", -1),
    OffsetCommitValue((1 << 63) - 1, (1 << 31) - 1, "é" * 1_000, (1 << 63) - 1),
]


@pytest.mark.parametrize("value", VALUES)
def test_an_offset_is_packed_as_its_schema_has_it(value: OffsetCommitValue) -> None:
    key = OffsetCommitKey("grüppe", "topic", -1)
    record = offset_record(offset_key_prefix(key.group, key.topic), key.partition, value, 77)
    assert (record.key, record.value, record.timestamp_ms) == (_encode(key, 1), _encode(value, 4), 77)
    assert read_record(record.key, record.value) == (key, value)


def test_an_offset_with_an_expiry_of_its_own_is_written_as_v1() -> None:
    """The only version that keeps it; that has no leader epoch."""
    value = OffsetCommitValue(5, 3, "note", 70, 80)
    record = offset_record(offset_key_prefix("group", "topic"), 0, value, 77)
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert read_record(record.key, record.value) == (
        OffsetCommitKey("group", "topic", 0),
        OffsetCommitValue(5, -1, "note", 70, 80),
    )


def test_tombstones() -> None:
    record = offset_record(offset_key_prefix("group", "topic"), 1, None, 77)
    assert read_record(record.key, record.value) == (OffsetCommitKey("group", "topic", 1), None)
    record = group_record(GroupMetadataKey("group"), None, 77)
    assert read_record(record.key, record.value) == (GroupMetadataKey("group"), None)


def test_a_group_is_written_as_kafka_reads_it() -> None:
    """Bytes by GroupMetadataValue.json, v3."""
    member = MemberMetadata("m", None, "c", "/h", 2, 1, b"s", b"a")
    record = group_record(GroupMetadataKey("g"), GroupMetadataValue("consumer", 5, "range", "m", 7, [member]), 77)
    assert record.key == b"\0\2\0\1g"
    assert record.value == (
        b"\0\3\0\x08consumer\0\0\0\5\0\5range\0\1m\0\0\0\0\0\0\0\7\0\0\0\1"
        b"\0\1m\xff\xff\0\1c\0\2/h\0\0\0\2\0\0\0\1\0\0\0\1s\0\0\0\1a"
    )
