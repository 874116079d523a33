from __future__ import annotations

import struct
from typing import Any

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from crc32c import crc32c

from barnabas.wire import record_batch
from barnabas.wire.primitives import MalformedFrame, varint
from barnabas.wire.record_batch import BatchHeader, Compression, Record
from tests.unit.wire.oracles import KafkaPythonBatch, KafkaPythonBuilder

RECORDS = [
    Record(b"key", b"value", 1_700_000_000_000),
    Record(None, b"x" * 300, 1_700_000_000_500, (("header", b"1"), ("no value", None))),
    Record(b"tombstone", None, 1_700_000_000_001),
    Record(b"", b"", 1_699_999_999_999),
]


def decompress(codec: int, payload: memoryview) -> bytes:
    match codec:
        case Compression.NONE:
            return bytes(payload)
        case Compression.GZIP:
            return bytes(cramjam.gzip.decompress(payload))
        case Compression.LZ4:
            return bytes(cramjam.lz4.decompress(payload))
        case Compression.ZSTD:
            return bytes(cramjam.zstd.decompress(payload))
        case Compression.SNAPPY if bytes(payload[:8]) == b"\x82SNAPPY\0":
            # xerial's framing: a header of 16 bytes, then blocks with their sizes.
            blocks, position = b"", 16
            while position < len(payload):
                (size,) = struct.unpack_from(">i", payload, position)
                blocks += bytes(cramjam.snappy.decompress_raw(payload[position + 4 : position + 4 + size]))
                position += 4 + size
            return blocks
    raise AssertionError(f"codec {codec}")


def built_by(builder: type[Any], codec: int, is_transactional: bool = False) -> bytes:
    batch = builder(
        magic=2,
        compression_type=codec,
        is_transactional=is_transactional,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        batch_size=100_000,
    )
    for offset, record in enumerate(RECORDS):
        batch.append(
            offset, timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=list(record.headers)
        )
    return bytes(batch.build())


@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder], ids=["kafka-python", "aiokafka"])
def test_batches_of_other_clients(builder: type[Any], codec: Compression, is_transactional: bool) -> None:
    batch = built_by(builder, codec, is_transactional)
    header = record_batch.parse_header(batch)
    assert record_batch.crc_is_valid(batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 3, 4)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 2**31 - 2)
    assert header.last_sequence == 1, "sequences wrap to 0"
    assert (header.magic, header.records_count, header.compression) == (2, 4, codec)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_500)
    assert header.is_transactional == is_transactional
    assert not header.is_control
    assert not header.is_log_append_time
    assert not header.has_delete_horizon
    assert header.has_producer
    assert header.has_contiguous_offsets
    payload = decompress(header.compression, memoryview(batch)[record_batch.HEADER_BYTES :])
    assert list(record_batch.iterate_timestamps(header, payload)) == [
        (offset, record.timestamp_ms) for offset, record in enumerate(RECORDS)
    ]
    decoded = record_batch.decode_payload(header, payload)
    assert [record.offset for record in decoded] == [0, 1, 2, 3]
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in decoded] == [
        (r.key, r.value, r.timestamp_ms, r.headers) for r in RECORDS
    ]


@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder], ids=["kafka-python", "aiokafka"])
def test_uncompressed_batches_are_byte_for_byte_those_of_other_clients(builder: type[Any]) -> None:
    ours = record_batch.build_batch(
        RECORDS, producer_id=4711, producer_epoch=3, base_sequence=2**31 - 2, partition_leader_epoch=0
    )
    theirs = bytearray(built_by(builder, 0))
    record_batch.patch_offsets(theirs, 0, 0, 0)
    assert ours == theirs


@pytest.mark.parametrize("reader", [KafkaPythonBatch, AiokafkaBatch], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
def test_a_patched_batch_is_read_by_other_clients(reader: type[Any], codec: Compression) -> None:
    before = b"before"
    buffer = bytearray(before + built_by(AiokafkaBuilder, codec) + b"after")
    record_batch.patch_offsets(buffer, len(before), 2**40, 17)
    assert record_batch.crc_is_valid(buffer, len(before))
    header = record_batch.parse_header(buffer, len(before))
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 17)
    theirs = reader(buffer[len(before) : -len(b"after")])
    assert theirs.validate_crc()
    assert [record.offset for record in theirs] == [2**40 + delta for delta in range(4)]
    assert bytes(buffer[:6] + buffer[-5:]) == b"beforeafter"


@pytest.mark.parametrize("reader", [KafkaPythonBatch, AiokafkaBatch], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
def test_log_append_time_is_patched_with_its_crc(reader: type[Any], codec: Compression) -> None:
    buffer = bytearray(b"before" + built_by(AiokafkaBuilder, codec, is_transactional=True) + b"after")
    record_batch.patch_log_append_time(memoryview(buffer), 6, 1_800_000_000_000)
    assert record_batch.crc_is_valid(buffer, 6)
    header = record_batch.parse_header(buffer, 6)
    assert header.is_log_append_time
    assert header.is_transactional
    assert header.compression == codec
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_800_000_000_000)
    theirs = reader(buffer[6:-5])
    assert theirs.validate_crc()
    assert {record.timestamp for record in theirs} == {1_800_000_000_000}
    if codec == Compression.NONE:
        assert {record.timestamp_ms for record in record_batch.decode_records(buffer[6:])} == {1_800_000_000_000}


def test_golden_batch() -> None:
    batch = record_batch.build_batch([Record(b"k", b"v", 1)], base_offset=5, partition_leader_epoch=9)
    assert batch.hex() == (
        "0000000000000005" "0000003a" "00000009" "02" + batch[17:21].hex() + "0000" "00000000"
        "0000000000000001" "0000000000000001" "ffffffffffffffff" "ffff" "ffffffff" "00000001"
        "10" "00" "00" "00" "026b" "0276" "00"
    )  # fmt: skip
    assert struct.unpack_from(">I", batch, 17)[0] == crc32c(batch[21:])


def test_attributes_of_a_control_batch() -> None:
    batch = record_batch.build_batch(
        [Record(bytes.fromhex("00000001"), bytes(6), 1)], is_control=True, is_transactional=True
    )
    header = record_batch.parse_header(batch)
    assert (header.is_control, header.is_transactional, header.attributes) == (True, True, 0x30)


def header_with(**values: int) -> BatchHeader:
    return record_batch.parse_header(record_batch.build_batch(RECORDS))._replace(**values)


def test_the_delete_horizon_is_an_attribute() -> None:
    assert header_with(attributes=0x40).has_delete_horizon


@pytest.mark.parametrize(
    ("records_count", "last_offset_delta", "contiguous"),
    [(1, 0, True), (4, 3, True), (0, -1, False), (0, 0, False), (3, 3, False), (-1, -2, False), (4, 2, False)],
)
def test_batches_of_clients_are_contiguous_and_not_empty(
    records_count: int, last_offset_delta: int, contiguous: bool
) -> None:
    header = header_with(records_count=records_count, last_offset_delta=last_offset_delta)
    assert header.has_contiguous_offsets is contiguous


def test_no_sequence_has_no_last_sequence() -> None:
    assert header_with(base_sequence=-1).last_sequence == record_batch.NO_SEQUENCE
    assert not header_with(producer_id=-1).has_producer


def test_headers_are_iterated_up_to_a_partial_batch() -> None:
    one, other = record_batch.build_batch(RECORDS[:1]), record_batch.build_batch(RECORDS, base_offset=1)
    found = list(record_batch.iterate_headers(one + other))
    assert [(position, header.base_offset) for position, header in found] == [(0, 0), (len(one), 1)]
    for length in range(len(one), len(one) + len(other)):
        assert len(list(record_batch.iterate_headers((one + other)[:length]))) == 1
    assert list(record_batch.iterate_headers(b"")) == []


@pytest.mark.parametrize("magic", [-1, 0, 1, 3])
def test_other_magics_end_the_iteration(magic: int) -> None:
    batch = bytearray(record_batch.build_batch(RECORDS))
    struct.pack_into(">b", batch, 16, magic)
    with pytest.raises(MalformedFrame, match=f"magic {magic}"):
        list(record_batch.iterate_headers(batch))
    with pytest.raises(MalformedFrame, match=f"magic {magic}"):
        record_batch.decode_records(batch)


@pytest.mark.parametrize("batch_length", [-(2**31), -12, -1, 0, 48])
def test_a_length_shorter_than_the_header_is_malformed(batch_length: int) -> None:
    batch = bytearray(record_batch.build_batch(RECORDS))
    struct.pack_into(">i", batch, 8, batch_length)
    with pytest.raises(MalformedFrame, match="length"):
        list(record_batch.iterate_headers(batch))
    with pytest.raises(MalformedFrame, match="length"):
        record_batch.decode_records(batch)
    assert not record_batch.crc_is_valid(batch)


def test_a_wrong_crc_is_seen_at_every_byte_that_it_covers() -> None:
    batch = bytearray(record_batch.build_batch(RECORDS))
    for position in range(17, len(batch)):
        batch[position] ^= 0x20
        assert not record_batch.crc_is_valid(batch)
        batch[position] ^= 0x20
    assert record_batch.crc_is_valid(batch)
    assert not record_batch.crc_is_valid(batch[:-1])
    assert not record_batch.crc_is_valid(batch[:60])


def test_a_header_cut_short_is_malformed() -> None:
    batch = record_batch.build_batch(RECORDS)
    for length in range(record_batch.HEADER_BYTES):
        with pytest.raises(MalformedFrame):
            record_batch.parse_header(batch[:length])
    with pytest.raises(MalformedFrame):
        record_batch.parse_header(batch, len(batch) - 60)


def test_compressed_records_are_not_decoded_here() -> None:
    with pytest.raises(MalformedFrame, match="codec 4"):
        record_batch.decode_records(built_by(AiokafkaBuilder, Compression.ZSTD))


def payload_of(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return varint(len(body)) + body


TINY = [b"\0", varint(0), varint(0), varint(-1), varint(-1), varint(0)]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "1 elements can't be in the 0 bytes"),
        (varint(-1) + bytes(9), "a record of -1 bytes"),
        (varint(100) + bytes(9), "a record of 100 bytes where 9 are left"),
        (varint(2**31 - 1) + bytes(9), "a record of 2147483647 bytes"),
        (b"\xff" * 10, "32 bits"),
        (payload_of(*TINY) + b"\0", "1 bytes follow"),
        (payload_of(*TINY, b"\0"), "differs from its fields by -1 bytes"),
        (payload_of(*TINY[:3], varint(50), bytes(9)), "of 50 bytes where 9 are left"),
        (payload_of(*TINY[:3], varint(-2), bytes(9)), "of -2 bytes"),
        (payload_of(*TINY[:5], varint(-1)), "a record with -1 headers"),
        (payload_of(*TINY[:5], varint(2**31 - 1), bytes(9)), "record headers: 2147483647 elements"),
        (payload_of(*TINY[:5], varint(1), varint(-1), varint(-1)), "without a name"),
        (payload_of(b"\0", b"\x80\x80\x80\x80\x80\x80"), "index|out of"),
    ],
)  # fmt: skip
def test_malformed_records(payload: bytes, message: str) -> None:
    header = header_with(records_count=1)
    with pytest.raises(MalformedFrame, match=message):
        record_batch.decode_payload(header, payload)


@pytest.mark.parametrize("records_count", [-1, -(2**31), 2**31 - 1])
def test_a_count_of_records_that_lies(records_count: int) -> None:
    with pytest.raises(MalformedFrame, match="records"):
        record_batch.decode_payload(header_with(records_count=records_count), payload_of(*TINY))
