"""Batches that pass the checksum and would still be poison: for every consumer, or for the log's offsets."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.batches.batch_validation import check_client_batch
from tests.unit.logstore.storage.support import WALL_MS, batch

ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT, RECORDS_COUNT_AT = 21, 23, 57


def changed(**fields: tuple[str, int, int]) -> memoryview:
    records = bytearray(batch(3))
    for layout, position, value in fields.values():
        struct.pack_into(layout, records, position, value)
    struct.pack_into(">I", records, 17, crc32c(memoryview(records)[21:]))
    return memoryview(records)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    """It was stored, and no consumer got past it."""
    records = changed(attributes=(">h", ATTRIBUTES_AT, codec))
    assert check_client_batch(records, TopicConfig(), WALL_MS) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_more_records_than_its_bytes_can_hold_are_refused() -> None:
    """Seventy bytes that claimed two thousand million records moved the log's end by as many offsets."""
    count = 0x7FFFFFFF
    records = changed(
        last_offset_delta=(">i", LAST_OFFSET_DELTA_AT, count - 1), records_count=(">i", RECORDS_COUNT_AT, count)
    )
    assert check_client_batch(records, TopicConfig(), WALL_MS) is ErrorCode.INVALID_RECORD
    assert not isinstance(check_client_batch(memoryview(batch(3)), TopicConfig(), WALL_MS), ErrorCode)
