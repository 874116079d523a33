"""Old message formats up and down: Kafka's own bytes, kafka-python's builders and readers, and what is refused."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from typing import Any

import pytest

from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Codecs
from barnabas.runtime.compression import CODECS, compress, decompress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.lz4_frame import with_checksum_of_magic_0, with_right_checksum
from barnabas.wire.message_set import Message, encode_message, iterate_messages
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    Compression,
    Record,
    assemble_batch,
    build_batch,
    crc_is_valid,
    decode_payload,
    parse_header,
)
from barnabas_gateway.core.backends.down_conversion import DownConverted, down_convert
from barnabas_gateway.core.backends.up_conversion import Refusal, UpConverted, needs_up_conversion, up_convert
from tests.unit.wire.golden_records import golden_records
from tests.unit.wire.record_oracles import legacy_records, memory_records

GOLDEN = golden_records()
CONTENTS = [(b"key", b"value"), (None, b"x" * 300), (b"tombstone", None), (b"", b"")]
TIMESTAMPS = [1_700_000_000_000, 1_700_000_000_500, 1_699_999_999_999, 1_700_000_000_001]
APPEND_TIME = 1_700_000_099_000
LEGACY_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
BOTH_MAGICS = pytest.mark.parametrize("magic", [0, 1])
EVERY_CODEC = pytest.mark.parametrize("codec", LEGACY_CODECS, ids=lambda codec: codec.name)
NO_ROOM_BOUND = 1 << 20


def up(records: bytes) -> bytes:
    converted = up_convert(records, CODECS)
    assert isinstance(converted, UpConverted), converted
    assert crc_is_valid(converted.records)
    return converted.records


def refused(records: bytes) -> ErrorCode:
    refusal = up_convert(records, CODECS)
    assert isinstance(refusal, Refusal)
    assert refusal.message
    return refusal.error


def records_of(batch: bytes) -> list[Record]:
    header = parse_header(batch)
    assert header.size_bytes == len(batch)
    payload: bytes | None = batch[HEADER_BYTES:]
    if header.compression:
        payload = decompress(header.compression, batch[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
    assert payload is not None
    return decode_payload(header, payload)


def down(batches: bytes, magic: int, fetch_offset: int = 0) -> bytes:
    converted = down_convert(batches, magic, fetch_offset, CODECS)
    assert isinstance(converted, DownConverted), converted
    return converted.records


def unwrapped(message_set: bytes) -> list[Any]:
    """The messages; of a compressed one everything but its value's compressed form."""
    found: list[Any] = []
    for message in iterate_messages(message_set):
        fields: Message | tuple[Message, list[Any]] = message
        if message.compression:
            assert message.value is not None
            value = with_right_checksum(message.value) if message.magic == 0 else message.value
            content = decompress(message.compression, value, DECOMPRESSED_BYTES_MAX)
            assert content is not None
            fields = (message._replace(value=None), unwrapped(content))
        found.append(fields)
    return found


def batch_of(codec: Compression, records: list[Record], base_offset: int = 0) -> bytes:
    batch = build_batch(records, base_offset=base_offset)
    header = parse_header(batch).with_compression(codec)
    return assemble_batch(header, compress(codec, batch[HEADER_BYTES:], None))


RECORDS = [
    Record(key, value, timestamp_ms, offset=offset)
    for offset, ((key, value), timestamp_ms) in enumerate(zip(CONTENTS, TIMESTAMPS, strict=True))
]

# --- Kafka's own bytes ---


@BOTH_MAGICS
@EVERY_CODEC
def test_what_kafka_wrote_in_an_old_format_becomes_one_batch_of_the_same_codec(codec: Compression, magic: int) -> None:
    message_set = GOLDEN[f"written {magic} {codec.name.lower()} CreateTime"]
    assert needs_up_conversion(message_set)
    batch = up(message_set)
    assert parse_header(batch).compression == codec
    assert not parse_header(batch).is_log_append_time
    assert records_of(batch) == [
        replace(record, timestamp_ms=record.timestamp_ms if magic else -1) for record in RECORDS
    ]


@EVERY_CODEC
def test_messages_with_log_append_time_take_the_wrappers_timestamp_and_say_so(codec: Compression) -> None:
    batch = up(GOLDEN[f"written 1 {codec.name.lower()} LogAppendTime"])
    header = parse_header(batch)
    assert header.is_log_append_time
    assert header.base_timestamp == header.max_timestamp == APPEND_TIME
    stamped = parse_header(batch).with_create_time()
    assert [record.timestamp_ms for record in records_of(assemble_batch(stamped, batch[HEADER_BYTES:]))] == [
        APPEND_TIME
    ] * 4


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
@BOTH_MAGICS
@EVERY_CODEC
def test_batches_become_the_messages_that_kafka_makes_of_them(
    codec: Compression, magic: int, timestamp_type: str
) -> None:
    name = f"{codec.name.lower()} {timestamp_type}"
    batch = GOLDEN[f"written 2 {name}"]
    for asked, fetch_offset in (("", 0), (" from 1002", 1002)):
        kafkas = GOLDEN[f"converted{asked} {magic} {name}"]
        # Bounded by the batch's size: only where Kafka's answer is larger, ours has less of it.
        ours = down(batch, magic, fetch_offset)
        assert unwrapped(ours) == unwrapped(kafkas)[: len(unwrapped(ours))]
        assert len(ours) >= min(len(kafkas), len(batch)) - 400
        if codec is Compression.NONE:
            assert kafkas.startswith(ours)


@BOTH_MAGICS
def test_control_batches_are_left_out_and_the_rest_follows(magic: int) -> None:
    ours = down(GOLDEN["several"], magic, 11)
    assert unwrapped(ours) == unwrapped(GOLDEN[f"several converted {magic}"])


# --- kafka-python ---


@BOTH_MAGICS
@pytest.mark.parametrize("codec", LEGACY_CODECS[:3], ids=lambda codec: codec.name)
def test_what_kafka_python_builds_is_taken(codec: Compression, magic: int) -> None:
    builder = legacy_records.LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for offset, ((key, value), timestamp_ms) in enumerate(zip(CONTENTS, TIMESTAMPS, strict=True)):
        builder.append(offset, timestamp_ms, key, value)
    assert records_of(up(bytes(builder.build()))) == [
        replace(record, timestamp_ms=record.timestamp_ms if magic else -1) for record in RECORDS
    ]


# For the lz4 of magic 0 it needs a package more; Kafka's own bytes stand for that above.
@pytest.mark.parametrize(
    ("codec", "magic"),
    [(codec, magic) for codec in LEGACY_CODECS for magic in (0, 1) if (codec, magic) != (Compression.LZ4, 0)],
    ids=str,
)
def test_kafka_python_reads_what_comes_down(codec: Compression, magic: int) -> None:
    records = [Record(b"k%d" % index, b"v" * 300, TIMESTAMPS[0] + index) for index in range(20)]
    converted = down(batch_of(codec, records, base_offset=500), magic)
    found = []
    reader = memory_records.MemoryRecords(converted)
    while reader.has_next():
        found += list(reader.next_batch())
    assert len(found) >= 15
    for index, record in enumerate(found):
        assert (record.offset, record.key, record.value) == (500 + index, b"k%d" % index, b"v" * 300)
        assert record.timestamp == (TIMESTAMPS[0] + index if magic else None)
        assert record.validate_crc()


# --- what is refused ---


def wrapped(inner: bytes, codec: Compression = Compression.GZIP, magic: int = 1, offset: int = 0) -> bytes:
    return encode_message(offset, magic, None, compress(codec, inner, None), timestamp_ms=5, compression=codec)


def plain(offset: int = 0, magic: int = 1, timestamp_ms: int = 5, **options: Any) -> bytes:
    return encode_message(offset, magic, b"k", b"v", timestamp_ms=timestamp_ms, **options)


def damaged(message: bytes, position: int) -> bytes:
    copy = bytearray(message)
    copy[position] ^= 1
    return bytes(copy)


def with_magic(message: bytes, magic: int) -> bytes:
    checked = bytes([magic]) + message[17:]
    return message[:12] + struct.pack(">I", zlib.crc32(checked)) + checked


BOMB = bytes(DECOMPRESSED_BYTES_MAX + 1)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (damaged(plain(), 20), ErrorCode.CORRUPT_MESSAGE),
        (struct.pack(">qi", 0, 13) + bytes(13), ErrorCode.CORRUPT_MESSAGE),
        (struct.pack(">qi", 0, -1) + bytes(13), ErrorCode.CORRUPT_MESSAGE),
        (wrapped(damaged(plain(), 20)), ErrorCode.CORRUPT_MESSAGE),
        (plain()[:-1], ErrorCode.INVALID_RECORD),
        (plain() + plain(1, magic=0), ErrorCode.INVALID_RECORD),
        (plain() + with_magic(plain(1), 2), ErrorCode.INVALID_RECORD),
        (wrapped(plain()) + plain(1), ErrorCode.INVALID_RECORD),
        (plain() + wrapped(plain()), ErrorCode.INVALID_RECORD),
        (wrapped(plain(magic=0)), ErrorCode.INVALID_RECORD),
        (wrapped(wrapped(plain())), ErrorCode.INVALID_RECORD),
        (wrapped(b""), ErrorCode.INVALID_RECORD),
        (wrapped(plain() + plain(1) + plain(2), offset=1), ErrorCode.INVALID_RECORD),
        (encode_message(0, 1, None, None, compression=1), ErrorCode.INVALID_RECORD),
        (encode_message(0, 1, None, b"no gzip", compression=1), ErrorCode.INVALID_RECORD),
        (wrapped(plain(), Compression.ZSTD), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (encode_message(0, 1, None, b"x", compression=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (plain(timestamp_ms=-2), ErrorCode.INVALID_TIMESTAMP),
        (wrapped(BOMB), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "CRC",
        "size below the least",
        "negative size",
        "CRC of an inner message",
        "no whole message",
        "two magics",
        "magic 2 among them",
        "a message behind a wrapper",
        "a wrapper behind a message",
        "magic 0 in magic 1",
        "nested wrapper",
        "empty wrapper",
        "wrapper offset below the last inner one",
        "null wrapper",
        "broken wrapper",
        "zstd",
        "no codec",
        "negative timestamp",
        "bomb",
    ],
)
def test_a_message_set_that_kafka_refuses_is_refused_as_it_does(records: bytes, error: ErrorCode) -> None:
    assert refused(records) == error


def test_an_incomplete_message_at_the_end_is_cut_off() -> None:
    assert len(records_of(up(plain() + plain(1)[:-1]))) == 1
    assert len(records_of(up(wrapped(plain() + plain(1)[:-1])))) == 1


def test_a_wrapper_with_offset_0_is_what_librdkafka_sends() -> None:
    assert len(records_of(up(wrapped(plain() + plain(1) + plain(2), offset=0)))) == 3


def test_lz4_of_magic_0_is_taken_with_either_checksum_and_leaves_with_kafkas_wrong_one() -> None:
    frame = compress(Compression.LZ4, plain(magic=0), None)
    wrong = bytes(with_checksum_of_magic_0(frame))
    assert wrong != frame
    assert with_right_checksum(wrong) == frame
    for value in (frame, wrong):
        assert len(records_of(up(encode_message(0, 0, None, value, compression=Compression.LZ4)))) == 1
    (message,) = iterate_messages(down(batch_of(Compression.LZ4, RECORDS), 0))
    assert message.value is not None
    assert CODECS.decompress(Compression.LZ4, message.value, NO_ROOM_BOUND) is None


def test_magic_2_is_left_to_the_leader() -> None:
    assert not needs_up_conversion(build_batch(RECORDS))
    assert not needs_up_conversion(b"\0" * 16)


# --- what can't come down ---


def test_zstd_can_not_come_down_but_what_is_before_it_does() -> None:
    before = batch_of(Compression.GZIP, RECORDS)
    zstd = batch_of(Compression.ZSTD, RECORDS, 4)
    assert down_convert(zstd, 1, 4, CODECS) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert unwrapped(down(before + zstd, 1)) == unwrapped(down(before, 1))


def test_a_batch_that_can_not_be_opened_is_an_error_where_it_is_the_first() -> None:
    before = batch_of(Compression.GZIP, RECORDS)
    header = parse_header(before)._replace(base_offset=4)
    for broken in (assemble_batch(header, b"no gzip"), assemble_batch(header, compress(1, b"no records", None))):
        assert down_convert(broken, 1, 4, CODECS) is ErrorCode.CORRUPT_MESSAGE
        assert unwrapped(down(before + broken, 1)) == unwrapped(down(before, 1))


@pytest.mark.parametrize(
    "record", [Record(b"k", b"v", -2), Record(b"k", b"v", 2**63)], ids=["negative time", "time beyond 64 bits"]
)
def test_a_record_that_no_message_can_say_is_an_error(record: Record) -> None:
    batch = build_batch([replace(record, timestamp_ms=5)])
    header = parse_header(batch)._replace(
        base_timestamp=record.timestamp_ms - 5 if record.timestamp_ms < 0 else 2**63 - 1
    )
    payload = bytearray(batch[HEADER_BYTES:])
    payload[2] = 10
    assert down_convert(assemble_batch(header, payload), 1, 0, CODECS) is ErrorCode.CORRUPT_MESSAGE


def test_an_offset_outside_of_its_batch_is_an_error() -> None:
    batch = build_batch([Record(b"k", b"v", 5)])
    payload = bytearray(batch[HEADER_BYTES:])
    for delta in (1, 2):
        payload[3] = delta
        broken = assemble_batch(parse_header(batch), payload)
        assert down_convert(broken, 1, 0, CODECS) is ErrorCode.CORRUPT_MESSAGE


def test_answers_grow_no_further_than_what_was_read_but_hold_one_message() -> None:
    batch = build_batch([Record(None, b"", 5) for _ in range(100)])
    converted = down(batch, 1)
    assert len(converted) <= len(batch)
    assert len(unwrapped(converted)) > 10
    single = build_batch([Record(None, b"", 5)])
    assert len(unwrapped(down(single, 1))) == 1


def test_a_batch_of_very_many_records_is_wrapped_in_several_messages() -> None:
    asked: list[int] = []

    def watched(codec: int, data: Any, level: int | None) -> bytes:
        asked.append(len(data))
        return compress(codec, data, level)

    records = [Record(None, bytes(500_000), 5 + index) for index in range(80)]
    converted = down_convert(batch_of(Compression.GZIP, records), 1, 0, Codecs(decompress, watched))
    assert isinstance(converted, DownConverted)
    assert max(asked) < 17 << 20
    found = [
        (wrapper.offset - inner[-1].offset + message.offset, message.timestamp_ms)
        for wrapper, inner in unwrapped(converted.records)
        for message in inner
    ]
    assert found == [(index, 5 + index) for index in range(len(found))]
    assert len(asked) >= 2
