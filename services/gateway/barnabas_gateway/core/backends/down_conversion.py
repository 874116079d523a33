"""Convert record batches to message sets of magic 0 or 1, for Fetch v0 to v3 (Kafka 3's RecordsUtil).

Each batch becomes one compressed message, or as many plain ones as it has records; codec, offsets and, in magic 1,
timestamps stay, headers are lost. Control batches are left out, and so are plain records before the requested offset.
Responses grow by this: conversion ends when the messages have more bytes than the batches had (what was reserved for
the response), but not before the first message, since a client must make progress.

Errors: UNSUPPORTED_COMPRESSION_TYPE if the first batch uses zstd, which these clients never supported; CORRUPT_MESSAGE
if the first can't be decompressed within the limit. Later in the response, either only ends the response: the client
fetches again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Codecs
from barnabas.wire.errors import ErrorCode
from barnabas.wire.lz4_frame import with_checksum_of_magic_0
from barnabas.wire.message_set import MAGIC_0, MAGIC_1, encode_message
from barnabas.wire.primitives import Buffer, MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, BatchHeader, Compression, iterate_headers
from barnabas.wire.records import outline_records

_TIMESTAMP_MS_MAX = 2**63 - 1
# A record of 7 bytes becomes a message of 34: a batch of very many is wrapped in more than one message, where Kafka
# would make one, so that a client can't choose how much memory that takes.
_WRAPPED_BYTES_MAX = 16 * 1024 * 1024


@dataclass(slots=True, frozen=True)
class DownConverted:
    """`memory_bytes` is the memory used temporarily (Kafka's TemporaryMemoryBytes)."""

    records: bytes
    memory_bytes: int


class _BatchRefused(Exception):  # noqa: N818  (an outcome, not a failure)
    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


def down_convert(batches: Buffer, magic: int, fetch_offset: int, codecs: Codecs) -> DownConverted | ErrorCode:
    assert magic in (MAGIC_0, MAGIC_1)
    view = memoryview(batches)
    parts: list[bytes] = []
    byte_count = memory_bytes = 0
    try:
        for position, header in iterate_headers(view):
            if header.is_control:
                continue
            payload = view[position + HEADER_BYTES : position + header.size_bytes]
            opened = _open(header, payload, codecs)
            if header.compression != Compression.NONE:
                memory_bytes += len(opened)
            for message in _messages(header, opened, magic, fetch_offset, codecs):
                if parts and byte_count + len(message) > len(view):
                    return DownConverted(b"".join(parts), memory_bytes)
                parts.append(message)
                byte_count += len(message)
                memory_bytes += len(message)
    except (_BatchRefused, MalformedFrame) as fault:
        if not parts:
            return fault.error if isinstance(fault, _BatchRefused) else ErrorCode.CORRUPT_MESSAGE
    return DownConverted(b"".join(parts), memory_bytes)


def _open(header: BatchHeader, payload: memoryview, codecs: Codecs) -> Buffer:
    if header.compression == Compression.NONE:
        return payload
    if header.compression == Compression.ZSTD:
        raise _BatchRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    opened = codecs.decompress(header.compression, payload, DECOMPRESSED_BYTES_MAX)
    if opened is None:
        raise _BatchRefused(ErrorCode.CORRUPT_MESSAGE)
    return opened


def _messages(header: BatchHeader, payload: Buffer, magic: int, fetch_offset: int, codecs: Codecs) -> Iterator[bytes]:
    is_log_append_time = header.is_log_append_time
    if header.compression == Compression.NONE:
        for offset, timestamp_ms, key, value in _records(header, payload):
            if offset >= fetch_offset:
                yield encode_message(
                    offset, magic, key, value, timestamp_ms=timestamp_ms, is_log_append_time=is_log_append_time
                )
        return
    # Inner offsets are absolute in magic 0, and count from the batch's first in magic 1 (KIP-31).
    inner_base_offset = header.base_offset if magic == MAGIC_1 else 0
    inner = bytearray()
    max_timestamp_ms = offset = -1
    for offset, timestamp_ms, key, value in _records(header, payload):
        max_timestamp_ms = max(max_timestamp_ms, timestamp_ms)
        inner += encode_message(
            offset - inner_base_offset,
            magic,
            key,
            value,
            timestamp_ms=timestamp_ms,
            is_log_append_time=is_log_append_time,
        )
        if len(inner) > _WRAPPED_BYTES_MAX:
            yield _wrap(header, inner, magic, offset, max_timestamp_ms, codecs)
            inner.clear()
            max_timestamp_ms = -1
    if inner:
        yield _wrap(header, inner, magic, offset, max_timestamp_ms, codecs)


def _wrap(
    header: BatchHeader, inner: bytearray, magic: int, last_offset: int, max_timestamp_ms: int, codecs: Codecs
) -> bytes:
    content: Buffer = codecs.compress(header.compression, inner, None)
    if magic == MAGIC_0 and header.compression == Compression.LZ4:
        content = with_checksum_of_magic_0(content)
    return encode_message(
        last_offset,
        magic,
        None,
        content,
        timestamp_ms=max_timestamp_ms,
        compression=header.compression,
        is_log_append_time=header.is_log_append_time,
    )


def _records(header: BatchHeader, payload: Buffer) -> Iterator[tuple[int, int, Buffer | None, Buffer | None]]:
    """Yield `(offset, timestamp, key, value)` of each record. Raises MalformedFrame."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time_ms = header.max_timestamp if header.is_log_append_time else None
    for _, _, timestamp_delta, offset_delta, key_at, key_length, value_at, value_length in outline_records(
        payload, header.records_count
    ):
        timestamp_ms = base_timestamp + timestamp_delta if append_time_ms is None else append_time_ms
        if not -1 <= timestamp_ms <= _TIMESTAMP_MS_MAX or not 0 <= offset_delta <= header.last_offset_delta:
            raise MalformedFrame(f"a record with the timestamp {timestamp_ms} and the offset delta {offset_delta}")
        yield (
            base_offset + offset_delta,
            timestamp_ms,
            None if key_length < 0 else payload[key_at : key_at + key_length],
            None if value_length < 0 else payload[value_at : value_at + value_length],
        )
