"""Batches whose topic wants them opened: another codec, a key in every record, timestamps one by one."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX
from barnabas.runtime.compression import CODECS, compress, decompress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Compression,
    Record,
    assemble_batch,
    build_batch,
    crc_is_valid,
    decode_payload,
    parse_header,
)
from barnabas_logstore.core.storage.batches.batch_opening import (
    RECORD_ERRORS_MAX,
    Refusal,
    must_open,
    open_batch,
)

WALL_MS = 1_700_000_000_000
COMPACT = TopicConfig(cleanup_policy="compact")
CODEC_NAMES = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
RECORDS = [Record(b"key%d" % index, b"value" * 20, WALL_MS + index, (("h", b"1"),)) for index in range(40)]


def compressed(codec: int, records: list[Record] = RECORDS, **changes: int) -> memoryview:
    """A client's batch; `changes` are to its header."""
    batch = build_batch(records)
    header = parse_header(batch).with_compression(codec)._replace(**changes)
    return memoryview(assemble_batch(header, compress(codec, batch[HEADER_BYTES:], None)))


def opened(batch: memoryview, config: TopicConfig, wall_ms: int = WALL_MS) -> memoryview:
    outcome = open_batch(batch, "orders-0", config, wall_ms, CODECS)
    assert isinstance(outcome, memoryview), outcome
    assert crc_is_valid(outcome)
    return outcome


def refused(batch: memoryview, config: TopicConfig, wall_ms: int = WALL_MS) -> Refusal:
    outcome = open_batch(batch, "orders-0", config, wall_ms, CODECS)
    assert isinstance(outcome, Refusal)
    return outcome


def contents(batch: memoryview) -> tuple[BatchHeader, list[Record]]:
    header = parse_header(batch)
    payload: Any = batch[HEADER_BYTES:]
    if header.compression:
        payload = decompress(header.compression, payload, DECOMPRESSED_BYTES_MAX)
    return header, decode_payload(header, payload)


# --- which ---


def test_a_topic_with_the_producers_codec_and_without_compaction_opens_nothing() -> None:
    assert not TopicConfig().opens_batches
    assert COMPACT.opens_batches
    assert TopicConfig(cleanup_policy="compact,delete").opens_batches
    assert TopicConfig(compression_type="zstd").opens_batches
    assert TopicConfig(max_decompressed_message_bytes=1000).opens_batches


@pytest.mark.parametrize("target", CODEC_NAMES)
@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
def test_only_what_has_another_codec_is_opened(codec: Compression, target: str) -> None:
    has_other = CODEC_NAMES[target] != codec
    assert must_open(compressed(codec), TopicConfig(compression_type=target), WALL_MS) == has_other
    assert must_open(compressed(codec), TopicConfig(compression_type=target, cleanup_policy="compact"), WALL_MS)
    bounded = TopicConfig(max_decompressed_message_bytes=1000)
    assert must_open(compressed(codec), bounded, WALL_MS) == (codec != Compression.NONE)
    assert not must_open(memoryview(b"short"), COMPACT, WALL_MS)


# --- codecs ---


@pytest.mark.parametrize("target", CODEC_NAMES)
@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
def test_a_batch_gets_its_topics_codec_and_keeps_its_records_and_its_producer(codec: Compression, target: str) -> None:
    batch = compressed(codec, producer_id=7, producer_epoch=1, base_sequence=5)
    before, records = contents(batch)
    after, same = contents(opened(batch, TopicConfig(compression_type=target)))
    assert same == records
    assert after.compression == CODEC_NAMES[target]
    kept = ("base_offset", "last_offset_delta", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch")
    for name in (*kept, "base_sequence", "records_count"):
        assert getattr(after, name) == getattr(before, name)


def test_the_topics_level_is_used() -> None:
    noise = [Record(b"%d" % (index * index), b"%d" % (index**3), WALL_MS) for index in range(5000)]
    sizes = {
        (name, level): len(
            opened(compressed(0, noise), TopicConfig(compression_type=name, **{f"compression_{name}_level": level}))
        )  # type: ignore[arg-type]
        for name, levels in (("gzip", (1, 9)), ("zstd", (-50, 19)), ("lz4", (1, 12)))
        for level in levels
    }
    assert sizes["gzip", 9] < sizes["gzip", 1]
    assert sizes["zstd", 19] < sizes["zstd", -50]
    assert sizes["lz4", 12] < sizes["lz4", 1]


def test_a_bomb_is_refused_and_so_is_what_is_broken() -> None:
    bomb = build_batch([Record(None, bytes(DECOMPRESSED_BYTES_MAX), WALL_MS)])
    header = parse_header(bomb).with_compression(Compression.ZSTD)
    small = assemble_batch(header, compress(Compression.ZSTD, bomb[HEADER_BYTES:], None))
    assert len(small) < 10_000
    for batch in (small, assemble_batch(header, b"no zstd")):
        refusal = refused(memoryview(batch), TopicConfig(compression_type="gzip"))
        assert refusal.error is ErrorCode.INVALID_RECORD
        assert "can't be decompressed" in refusal.message


@pytest.mark.parametrize("count", [39, 41, 2**31 - 1])
def test_records_that_are_not_as_many_as_the_header_says_are_refused(count: int) -> None:
    batch = compressed(Compression.GZIP, records_count=count, last_offset_delta=count - 1)
    assert refused(batch, COMPACT).error is ErrorCode.INVALID_RECORD


def test_what_the_header_alone_tells_comes_first() -> None:
    assert refused(compressed(Compression.GZIP, records_count=-1), COMPACT).error is ErrorCode.INVALID_RECORD
    damaged = bytearray(compressed(Compression.GZIP))
    damaged[-1] ^= 1
    assert refused(memoryview(damaged), COMPACT).error is ErrorCode.CORRUPT_MESSAGE
    assert refused(compressed(0), TopicConfig(cleanup_policy="compact", max_message_bytes=100)) == Refusal(
        ErrorCode.MESSAGE_TOO_LARGE
    )


def test_offsets_that_do_not_count_up_from_0_are_refused() -> None:
    batch = bytearray(build_batch(RECORDS[:1] * 2))
    second = len(batch) - (len(batch) - HEADER_BYTES) // 2
    assert batch[second + 4] == 2, "zigzag of the second record's offset delta"
    batch[second + 4] = 4
    header = parse_header(batch)
    refusal = refused(memoryview(assemble_batch(header, batch[HEADER_BYTES:])), COMPACT)
    assert refusal == Refusal(ErrorCode.INVALID_RECORD, "record 1 has the offset 2 in its batch")


def test_a_million_records_are_looked_at() -> None:
    count = 1_000_000
    payload = bytearray()
    for index in range(count):
        zigzag = index << 1
        delta = bytes((zigzag & 0x7F | 0x80, zigzag >> 7 & 0x7F | 0x80, zigzag >> 14))
        payload += b"\x12\0\0" + delta + b"\x02k\0\0"
    header = parse_header(build_batch(RECORDS[:1]))._replace(records_count=count, last_offset_delta=count - 1)
    header = header._replace(max_timestamp=header.base_timestamp).with_compression(Compression.GZIP)
    batch = assemble_batch(header, compress(Compression.GZIP, payload, 1))
    config = TopicConfig(cleanup_policy="compact", max_message_bytes=20_000_000)
    assert opened(memoryview(batch), config) == batch


# --- keys ---


def test_records_without_a_key_are_named_in_kafkas_words() -> None:
    records = [Record(None if index in (1, 3) else b"k", b"v", WALL_MS) for index in range(5)]
    for codec in (Compression.NONE, Compression.ZSTD):
        refusal = refused(compressed(codec, records), COMPACT)
        assert refusal.error is ErrorCode.INVALID_RECORD
        blame = "Compacted topic cannot accept message without key in topic partition orders-0"
        assert [(error.batch_index, error.message) for error in refusal.record_errors] == [(1, blame), (3, blame)]
        assert refusal.message == (
            "One or more records have been rejected due to 2 record errors in total, and only showing the first three "
            f"errors at most: [RecordError(batchIndex=1, message='{blame}'), RecordError(batchIndex=3, "
            f"message='{blame}')]"
        )


def test_an_empty_key_is_a_key_and_a_null_value_a_tombstone() -> None:
    batch = compressed(0, [Record(b"", None, WALL_MS)])
    assert opened(batch, COMPACT) == batch


def test_only_so_many_records_are_named() -> None:
    refusal = refused(compressed(0, [Record(None, b"v", WALL_MS)] * 500), COMPACT)
    assert len(refusal.record_errors) == RECORD_ERRORS_MAX
    assert "500 record errors in total" in refusal.message


# --- timestamps ---


def test_each_timestamp_is_held_to_the_bounds_not_only_the_headers() -> None:
    config = TopicConfig(cleanup_policy="compact", message_timestamp_after_max_ms=1000)
    records = [Record(b"k", b"v", WALL_MS + offset) for offset in (0, 1001, 0)] + [Record(b"k", b"v", -1)]
    refusal = refused(compressed(0, records, max_timestamp=WALL_MS), config)
    assert refusal.error is ErrorCode.INVALID_TIMESTAMP
    assert refusal.message == "One or more records have been rejected due to invalid timestamp"
    (error,) = refusal.record_errors
    assert error.batch_index == 1
    assert error.message.startswith(f"Timestamp {WALL_MS + 1001} of message with offset 1 is out of range.")


def test_log_append_time_needs_no_bounds() -> None:
    config = TopicConfig(
        cleanup_policy="compact", message_timestamp_type=LOG_APPEND_TIME, message_timestamp_after_max_ms=1000
    )
    batch = compressed(0, [Record(b"k", b"v", WALL_MS + 5000)])
    assert opened(batch, config) == batch


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=["uncompressed", "gzip"])
def test_a_largest_timestamp_that_is_not_the_records_is_corrected(codec: Compression) -> None:
    header, records = contents(opened(compressed(codec, max_timestamp=WALL_MS - 77), COMPACT))
    assert header.max_timestamp == RECORDS[-1].timestamp_ms
    assert [record.timestamp_ms for record in records] == [record.timestamp_ms for record in RECORDS]


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    config = TopicConfig(cleanup_policy="compact", message_timestamp_type=LOG_APPEND_TIME)
    batch = compressed(0, RECORDS, base_timestamp=2**63 - 2)
    assert refused(batch, config).error is ErrorCode.INVALID_RECORD
