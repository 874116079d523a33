"""Convert message sets of magic 0 and 1, from Produce v0 to v2, to one record batch (Kafka 3's LogValidator).

The batch keeps the producer's codec; the leader applies what its topic requires of codec, timestamps and keys. A
timestamp, which magic 0 does not have, is −1. If the messages say LogAppendTime, the batch says so too: the leader
accepts or refuses that as from any producer.

Errors, as in Kafka: CORRUPT_MESSAGE for wrong sizes and CRCs, also of inner messages; INVALID_RECORD for mixed formats,
and for a compressed message that is not alone, is empty, can't be decompressed within the limit, or wraps another;
INVALID_TIMESTAMP for one that is negative and not −1; UNSUPPORTED_COMPRESSION_TYPE for codecs that these formats don't
have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Codecs
from barnabas.wire.errors import ErrorCode
from barnabas.wire.lz4_frame import UNREADABLE, end_of_javas_frame, with_right_checksum
from barnabas.wire.message_set import (
    MAGIC_0,
    MAGIC_1,
    MAGIC_POSITION,
    CorruptMessage,
    Message,
    iterate_messages,
)
from barnabas.wire.primitives import Buffer, MalformedFrame, varint
from barnabas.wire.record_batch import (
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    assemble_batch,
)

_LOG_APPEND_TIME_BIT = 0x08
_LEGACY_CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
# Deltas of timestamps must fit into 64 bits, one from −1 included.
_TIMESTAMP_MS_MAX = 2**63 - 2


@dataclass(slots=True, frozen=True)
class UpConverted:
    """`memory_bytes` is the memory used temporarily (Kafka's TemporaryMemoryBytes)."""

    records: bytes
    memory_bytes: int


@dataclass(slots=True, frozen=True)
class Refusal:
    error: ErrorCode
    message: str


def needs_up_conversion(records: Buffer) -> bool:
    """Whether this is a message set; the leader judges anything else."""
    return len(records) > MAGIC_POSITION and records[MAGIC_POSITION] in (MAGIC_0, MAGIC_1)


def up_convert(records: Buffer, codecs: Codecs) -> UpConverted | Refusal:
    try:
        first = next(iterate_messages(records), None)
        if first is None:
            return Refusal(ErrorCode.INVALID_RECORD, "A produce request must have a whole message per partition.")
        if first.compression == Compression.NONE:
            return _assemble(iterate_messages(records), first, 0, codecs)
        if sum(1 for _ in iterate_messages(records)) > 1:
            return Refusal(ErrorCode.INVALID_RECORD, "Compressed outer record has more than one batch")
        if first.compression not in _LEGACY_CODECS:
            fault = f"Messages of magic {first.magic} can't be compressed with codec {first.compression}"
            return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, fault)
        content = _open(first, codecs)
        if content is None:
            fault = f"The compressed message can't be opened, or holds more than {DECOMPRESSED_BYTES_MAX} bytes"
            return Refusal(ErrorCode.INVALID_RECORD, fault)
        return _assemble(_unwrapped(first, content), first, len(content), codecs)
    except CorruptMessage as corrupt:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(corrupt))
    except MalformedFrame as malformed:
        return Refusal(ErrorCode.INVALID_RECORD, str(malformed))


def _open(wrapper: Message, codecs: Codecs) -> bytes | None:
    value: Buffer | None = wrapper.value
    if value is None:
        return None
    if wrapper.compression == Compression.LZ4:
        if wrapper.magic == MAGIC_0:
            value = with_right_checksum(value)
        if end_of_javas_frame(value, len(value)) == UNREADABLE:
            return None
    return codecs.decompress(wrapper.compression, value, DECOMPRESSED_BYTES_MAX)


def _unwrapped(wrapper: Message, content: bytes) -> Iterator[Message]:
    """Return the messages inside; all timestamps are the wrapper's if that has LogAppendTime. Raises MalformedFrame."""
    message = None
    for message in iterate_messages(content):
        yield message._replace(timestamp_ms=wrapper.timestamp_ms) if wrapper.is_log_append_time else message
    if message is None:
        raise MalformedFrame("a compressed message set with no inner records")
    if wrapper.magic == MAGIC_1 and 0 != wrapper.offset < message.offset:
        # Some versions of librdkafka leave 0 there.
        raise MalformedFrame(f"wrapper offset {wrapper.offset} is less than the last inner one, {message.offset}")


def _assemble(messages: Iterator[Message], first: Message, memory_bytes: int, codecs: Codecs) -> UpConverted | Refusal:
    """Assemble one batch of `messages`, keeping only their bytes. `first` is the first of the set itself, the wrapper
    if there is one.
    """
    payload = bytearray()
    count = 0
    base_timestamp = max_timestamp = NO_TIMESTAMP
    is_log_append_time = first.is_log_append_time
    for message in messages:
        if message.magic != first.magic:
            raise MalformedFrame(f"a message of magic {message.magic} among those of magic {first.magic}")
        if message.compression:
            raise MalformedFrame("Inner messages must not be compressed")
        timestamp_ms = message.timestamp_ms
        if not NO_TIMESTAMP <= timestamp_ms <= _TIMESTAMP_MS_MAX:
            return Refusal(ErrorCode.INVALID_TIMESTAMP, f"Invalid message timestamp {timestamp_ms}")
        if count == 0:
            base_timestamp = timestamp_ms
        max_timestamp = max(max_timestamp, timestamp_ms)
        is_log_append_time = is_log_append_time or message.is_log_append_time
        _add_record(payload, message, timestamp_ms - base_timestamp, count)
        count += 1
    header = BatchHeader(
        0,
        0,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        first.compression | _LOG_APPEND_TIME_BIT * is_log_append_time,
        count - 1,
        base_timestamp,
        max_timestamp,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        count,
    )
    content: Buffer = codecs.compress(first.compression, payload, None) if first.compression else payload
    return UpConverted(assemble_batch(header, content), memory_bytes + len(payload))


def _add_record(payload: bytearray, message: Message, timestamp_delta: int, offset_delta: int) -> None:
    """Write a message as a record without headers."""
    key, value = message.key, message.value
    body = b"".join(
        (
            b"\0",
            varint(timestamp_delta),
            varint(offset_delta),
            varint(-1) if key is None else varint(len(key)),
            key or b"",
            varint(-1) if value is None else varint(len(value)),
            value or b"",
            b"\0",
        )
    )
    payload += varint(len(body))
    payload += body
