"""Record batches of format v2 (magic 2), as produced, fetched and stored.

The header, 61 bytes: base offset int64, batch length int32 (of what follows it), partition leader epoch int32, magic
int8, CRC uint32, attributes int16, last offset delta int32, base timestamp int64, max timestamp int64, producer id
int64, producer epoch int16, base sequence int32, records count int32. The CRC-32C covers everything from the attributes
to the end, so base offset and leader epoch can be set without touching it.

Decompression is not done here: the record-level functions take uncompressed bytes.

Source: https://kafka.apache.org/documentation/#recordbatch and Kafka's DefaultRecordBatch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.wire.primitives import Buffer, MalformedFrame, check_count, read_varint, read_varlong, varint

HEADER_BYTES: Final = 61
LENGTH_OVERHEAD_BYTES: Final = 12
"""What a batch has before the bytes that `batch_length` counts: base offset and the length itself."""
MAGIC: Final = 2
RECORD_BYTES_MIN: Final = 7

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21
_MAX_TIMESTAMP_AT: Final = 35

_COMPRESSION_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40

_HEADER: Final = Struct(">qiibIhiqqqhii")
PLACE: Final = Struct(">qii")
"""Base offset, batch length and leader epoch, with which a batch begins: what its leader assigns. The CRC begins after
them, so an append may replace these 16 bytes and keep the client's others."""
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_NULL: Final = varint(-1)
_INT64: Final = Struct(">q")


class Compression(IntEnum):
    """The codec in the lowest three bits of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """A header as it is in the bytes, unchecked except for its size; created by `parse_header`."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31 - 1 to 0; NO_SEQUENCE if there is none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def latest_timestamp(self) -> int:
        """The largest timestamp of a record in it. A batch that compaction left empty keeps its `max_timestamp`, but no
        record has it any more.
        """
        return self.max_timestamp if self.records_count else NO_TIMESTAMP

    @property
    def compression(self) -> int:
        """A `Compression`, or one of the numbers 5 to 7 that have no codec."""
        return self.attributes & _COMPRESSION_MASK

    def with_compression(self, codec: int) -> BatchHeader:
        return self._replace(attributes=self.attributes & ~_COMPRESSION_MASK | codec)

    def with_create_time(self) -> BatchHeader:
        """The records' own timestamps count, whatever the header says."""
        return self._replace(attributes=self.attributes & ~_LOG_APPEND_TIME)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Then `base_timestamp` is the delete horizon (KIP-534)."""
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def has_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def has_contiguous_offsets(self) -> bool:
        """Whether the counts agree on at least one record, one per offset, as in every batch from a client.

        Compacted logs may contain batches with gaps, and empty ones that keep a producer's last sequence.
        """
        return self.records_count > 0 and self.last_offset_delta == self.records_count - 1


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Parse the header at `position`, whatever its magic. Raises MalformedFrame if there are fewer than 61 bytes."""
    if len(buffer) - position < HEADER_BYTES:
        raise MalformedFrame(f"the header of a record batch can't be in {len(buffer) - position} bytes")
    # A plain tuple.__new__ costs a third of calling the class, and every appended batch is parsed here.
    return tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))


def iterate_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield `(position, header)` of each complete batch; stop before a partial one at the end, as fetches end with one.

    Raises MalformedFrame at a batch whose magic is not 2 or whose length is less than its header's.
    """
    position = 0
    while len(buffer) - position >= HEADER_BYTES:
        header = parse_header(buffer, position)
        if header.magic != MAGIC:
            raise MalformedFrame(f"a record batch of magic {header.magic} at byte {position}")
        if header.size_bytes < HEADER_BYTES:
            raise MalformedFrame(f"a record batch with a length of {header.batch_length} at byte {position}")
        if header.size_bytes > len(buffer) - position:
            return
        yield position, header
        position += header.size_bytes


def crc_is_valid(buffer: Buffer, position: int = 0) -> bool:
    """Whether the batch at `position` is complete and its CRC-32C is correct."""
    if len(buffer) - position < HEADER_BYTES:
        return False
    end = position + LENGTH_OVERHEAD_BYTES + int(_INT32.unpack_from(buffer, position + 8)[0])
    if not position + HEADER_BYTES <= end <= len(buffer):
        return False
    checked: int = crc32c(memoryview(buffer)[position + _CHECKED_FROM : end])
    return checked == int(_UINT32.unpack_from(buffer, position + _CRC_AT)[0])


def patch_offsets(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set, in place, the two fields that the leader assigns; the CRC does not cover them."""
    _, batch_length, _ = PLACE.unpack_from(buffer, position)
    PLACE.pack_into(buffer, position, base_offset, batch_length, leader_epoch)


def patch_log_append_time(buffer: bytearray | memoryview, position: int, append_time_ms: int) -> None:
    """Make it a LogAppendTime batch of that time, in place, with a new CRC; its records are unchanged."""
    attributes: int = _INT16.unpack_from(buffer, position + _CHECKED_FROM)[0]
    _INT16.pack_into(buffer, position + _CHECKED_FROM, attributes | _LOG_APPEND_TIME)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_AT, append_time_ms)
    end = position + LENGTH_OVERHEAD_BYTES + int(_INT32.unpack_from(buffer, position + 8)[0])
    _UINT32.pack_into(buffer, position + _CRC_AT, crc32c(memoryview(buffer)[position + _CHECKED_FROM : end]))


@dataclass(slots=True)
class Record:
    """One record. Decoding sets `offset`; building numbers the records one by one and ignores it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = NO_TIMESTAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Build an uncompressed CreateTime batch of at least one record, including its CRC."""
    numbered = list(records)
    assert numbered, "a batch is built of at least one record"
    base_timestamp = numbered[0].timestamp_ms
    payload = b"".join([encode_record(record, delta, base_timestamp) for delta, record in enumerate(numbered)])
    head = _HEADER.pack(
        base_offset,
        _batch_length(payload),
        partition_leader_epoch,
        MAGIC,
        0,
        TRANSACTIONAL_BIT * is_transactional | _CONTROL * is_control,
        len(numbered) - 1,
        base_timestamp,
        max([record.timestamp_ms for record in numbered]),
        producer_id,
        producer_epoch,
        base_sequence,
        len(numbered),
    )
    return _with_crc(head, payload)


def assemble_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """Put `header` before `payload`, which has the header's codec; length and CRC are set accordingly."""
    return _with_crc(_HEADER.pack(*header._replace(batch_length=_batch_length(payload))), payload)


def _batch_length(payload: Buffer) -> int:
    return HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(payload)


def _with_crc(head: bytes, payload: Buffer) -> bytes:
    checked = head[_CHECKED_FROM:]
    crc = crc32c(payload, crc32c(checked))
    return b"".join((head[:_CRC_AT], _UINT32.pack(crc), checked, payload))


def rebuild_batch(
    header: BatchHeader, payload: Buffer, *, records_count: int, max_timestamp: int, delete_horizon_ms: int | None
) -> bytes:
    """Rebuild the batch of `header` with fewer records, which are `payload`, compressed by the batch's codec.

    Its place stays: base and last offset, leader epoch, producer and sequence. `delete_horizon_ms` becomes the base
    timestamp (KIP-534), and the records' timestamp deltas must be relative to it; None: unchanged.
    """
    header = header._replace(records_count=records_count, max_timestamp=max_timestamp)
    if delete_horizon_ms is not None:
        header = header._replace(attributes=header.attributes | _DELETE_HORIZON, base_timestamp=delete_horizon_ms)
    return assemble_batch(header, payload)


def empty_batch(header: BatchHeader) -> bytes:
    """Return the batch of `header` without records, as compaction leaves it to keep a producer's sequence."""
    attributes = header.attributes & (_LOG_APPEND_TIME | TRANSACTIONAL_BIT | _CONTROL)
    empty = header._replace(attributes=attributes, base_timestamp=header.max_timestamp, records_count=0)
    return assemble_batch(empty, b"")


def decode_records(batch: Buffer) -> list[Record]:
    """Decode the records of the one uncompressed batch at the beginning of `batch`. Raises MalformedFrame."""
    header = parse_header(batch)
    if header.magic != MAGIC:
        raise MalformedFrame(f"a record batch of magic {header.magic}")
    if not HEADER_BYTES <= header.size_bytes <= len(batch):
        raise MalformedFrame(f"a record batch with a length of {header.batch_length} in {len(batch)} bytes")
    if header.compression != Compression.NONE:
        raise MalformedFrame(f"a record batch compressed with codec {header.compression}: decompress its payload first")
    return decode_payload(header, memoryview(batch)[HEADER_BYTES : header.size_bytes])


def decode_payload(header: BatchHeader, payload: Buffer) -> list[Record]:
    """Decode the records in `payload`, which follows the header of a batch, decompressed. Raises MalformedFrame."""
    if header.records_count < 0:
        raise MalformedFrame(f"a record batch of {header.records_count} records")
    check_count("records", header.records_count, RECORD_BYTES_MIN, len(payload))
    records = []
    position = 0
    try:
        for _ in range(header.records_count):
            record, position = _decode_record(header, payload, position)
            records.append(record)
    except IndexError as error:
        raise MalformedFrame(f"record {len(records)} of {header.records_count}: {error}") from None
    if position != len(payload):
        raise MalformedFrame(f"{len(payload) - position} bytes follow the last record of a batch")
    return records


def iterate_timestamps(header: BatchHeader, payload: Buffer) -> Iterator[tuple[int, int]]:
    """Yield `(offset, timestamp_ms)` of each record in `payload`, without decoding its content. Raises
    MalformedFrame.
    """
    position = 0
    try:
        for _ in range(header.records_count):
            length, position = read_varint(payload, position)
            end = position + length
            if length < 0 or end > len(payload):
                raise MalformedFrame(f"a record of {length} bytes where {len(payload) - position} are left")
            timestamp_delta, position = read_varlong(payload, position + 1)
            offset_delta, _ = read_varint(payload, position)
            timestamp_ms = (
                header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
            )
            yield header.base_offset + offset_delta, timestamp_ms
            position = end
    except IndexError as error:
        raise MalformedFrame(f"a batch of {header.records_count} records ends too early: {error}") from None


def encode_record(record: Record, offset_delta: int, base_timestamp: int) -> bytes:
    """Encode one record of a payload; `offset_delta` is its place in the batch."""
    key, value, headers = record.key, record.value, record.headers
    body = b"".join(
        (
            b"\0",
            varint(record.timestamp_ms - base_timestamp),
            varint(offset_delta),
            _NULL if key is None else varint(len(key)),
            key or b"",
            _NULL if value is None else varint(len(value)),
            value or b"",
            varint(len(headers)),
            _encode_headers(headers) if headers else b"",
        )
    )
    return varint(len(body)) + body


def _encode_headers(headers: tuple[tuple[str, bytes | None], ...]) -> bytes:
    parts: list[bytes] = []
    for name, value in headers:
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        parts += (_NULL, b"") if value is None else (varint(len(value)), value)
    return b"".join(parts)


def _decode_record(header: BatchHeader, payload: Buffer, position: int) -> tuple[Record, int]:
    length, position = read_varint(payload, position)
    end = position + length
    if length < 0 or end > len(payload):
        raise MalformedFrame(f"a record of {length} bytes where {len(payload) - position} are left")
    timestamp_delta, position = read_varlong(payload, position + 1)
    offset_delta, position = read_varint(payload, position)
    key, position = _read_nullable(payload, position, end)
    value, position = _read_nullable(payload, position, end)
    count, position = read_varint(payload, position)
    if count < 0:
        raise MalformedFrame(f"a record with {count} headers")
    check_count("record headers", count, 2, end - position)
    headers = []
    for _ in range(count):
        name, position = _read_nullable(payload, position, end)
        if name is None:
            raise MalformedFrame("a record header without a name")
        content, position = _read_nullable(payload, position, end)
        headers.append((str(name, "utf-8", "replace"), content))
    if position != end:
        raise MalformedFrame(f"the length of a record differs from its fields by {position - end} bytes")
    timestamp_ms = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
    return Record(key, value, timestamp_ms, tuple(headers), header.base_offset + offset_delta), end


def _read_nullable(payload: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position)
    if length == -1:
        return None, position
    if length < 0 or position + length > end:
        raise MalformedFrame(f"a key, value or header of {length} bytes where {end - position} are left")
    return bytes(payload[position : position + length]), position + length
