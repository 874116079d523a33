"""Decide which batches a leader accepts from a client, by their headers (Kafka's LogValidator and the checks before
it).

Nothing here looks at single records: their number comes from the header, and so do their timestamps, unless the header
can't be right (`must_be_opened`). The CRC proves that the records are what the producer wrote; consumers find out
whether they are valid, as long as nothing makes the broker check (ADR 0008 and 0041). If something does,
`batch_opening` opens the batch, and its result is still checked here.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas.wire.lz4_frame import end_of_javas_frame
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Compression,
    assemble_batch,
    crc_is_valid,
    parse_header,
)

_MAGIC_POSITION = 16
_LENGTH = Struct(">i")
_LENGTH_POSITION = 8
_LENGTH_MIN = 14
"""The size of the oldest format's smallest message; less is a broken length in any format."""
_LOG_APPEND_TIME_BIT = 0x08
_CONTROL_BIT = 0x20
_CODECS = frozenset(int(codec) for codec in Compression)
_UNUSUAL_BITS = _LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | _CONTROL_BIT

PLAUSIBLE_SPAN_MS = 3_600_000
"""A largest timestamp may be so much later than the base without being looked at: as much as a client's clock may be
fast, by the default of `message.timestamp.after.max.ms`.
"""
LZ4_BLOCKS_MAX = 64
"""Blocks of a frame that are passed over in the event loop: 4 MiB in the smallest size of them."""


class Doubt(Enum):
    """What a header leaves open."""

    MUST_BE_OPENED = "the records decide"


CheckedBatch = tuple[BatchHeader, memoryview]


def check_client_batch(
    records: memoryview, config: TopicConfig, wall_ms: int, *, is_examined: bool = False
) -> CheckedBatch | ErrorCode | Doubt:
    """Return the one batch in `records`, as it is to be stored, or why it is refused, or that it has to be opened.
    `wall_ms` is the broker's clock.

    A batch that `is_examined` is being opened, has been, or need not be: its timestamps and its frame are not judged.
    """
    byte_count = len(records)
    if byte_count < HEADER_BYTES or records[_MAGIC_POSITION] != MAGIC:
        return _malformed(records)
    header = parse_header(records)
    if header.size_bytes != byte_count:
        fault = _fault_of_size(records, header)
        if fault is not None:
            return fault
        byte_count = header.size_bytes
        records = records[:byte_count]
    if header.base_offset != 0:
        return ErrorCode.INVALID_RECORD
    if byte_count > config.max_message_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if byte_count > config.segment_bytes:
        return ErrorCode.RECORD_LIST_TOO_LARGE
    if not crc_is_valid(records):
        return ErrorCode.CORRUPT_MESSAGE
    if not header.has_contiguous_offsets:
        return ErrorCode.INVALID_RECORD
    if header.compression not in _CODECS:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if header.compression == Compression.NONE and header.records_count * RECORD_BYTES_MIN > byte_count - HEADER_BYTES:
        # Offsets that no record could have: the log would jump by as many as the header claims.
        return ErrorCode.INVALID_RECORD
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return ErrorCode.INVALID_RECORD
    if header.attributes & _UNUSUAL_BITS:
        unusual = _unusual(header, records, config)
        if isinstance(unusual, ErrorCode):
            return unusual
        header, records = unusual
    if not is_examined and must_be_opened(header, records, config, wall_ms):
        return Doubt.MUST_BE_OPENED
    return header, records


def must_be_opened(header: BatchHeader, records: memoryview, config: TopicConfig, wall_ms: int) -> bool:
    """Whether only the records can tell if the batch in `records` is to be taken, and its largest timestamp.

    The header tells it if both of its timestamps are within the topic's bounds, and the largest is not before the base
    nor implausibly long after it. Java's consumers read an lz4 frame that is whole, and nothing behind it.
    """
    if config.message_timestamp_type != LOG_APPEND_TIME:
        base_timestamp, max_timestamp = header.base_timestamp, header.max_timestamp
        if base_timestamp != max_timestamp and (
            header.records_count == 1 or not 0 < max_timestamp - base_timestamp <= PLAUSIBLE_SPAN_MS
        ):
            return True
        if (
            base_timestamp <= 0
            or base_timestamp < wall_ms - config.message_timestamp_before_max_ms
            or max_timestamp > wall_ms + config.message_timestamp_after_max_ms
        ):
            return True
    if header.compression != Compression.LZ4:
        return False
    return end_of_javas_frame(records[HEADER_BYTES:], LZ4_BLOCKS_MAX) != len(records) - HEADER_BYTES


def _malformed(records: memoryview) -> ErrorCode:
    """Torn, or of magic 0 or 1, which Produce v3 and later must not have; of any other magic it is garbage."""
    is_known_magic = len(records) <= _MAGIC_POSITION or records[_MAGIC_POSITION] <= MAGIC
    return ErrorCode.INVALID_RECORD if is_known_magic else ErrorCode.CORRUPT_MESSAGE


def _fault_of_size(records: memoryview, header: BatchHeader) -> ErrorCode | None:
    """Return what is wrong with records that are not exactly as long as their first batch. None: what follows it is
    only the beginning of another, which is cut off.
    """
    if header.size_bytes < HEADER_BYTES:
        return ErrorCode.CORRUPT_MESSAGE
    tail = records[header.size_bytes :]
    if not tail:
        return ErrorCode.INVALID_RECORD
    if len(tail) < LENGTH_OVERHEAD_BYTES:
        return None
    length: int = _LENGTH.unpack_from(tail, _LENGTH_POSITION)[0]
    if length < _LENGTH_MIN or (len(tail) > _MAGIC_POSITION and tail[_MAGIC_POSITION] > MAGIC):
        return ErrorCode.CORRUPT_MESSAGE
    is_whole = len(tail) >= LENGTH_OVERHEAD_BYTES + length
    # Produce v3 and later have one batch for each partition.
    return ErrorCode.INVALID_RECORD if is_whole else None


def _unusual(header: BatchHeader, records: memoryview, config: TopicConfig) -> CheckedBatch | ErrorCode:
    if header.attributes & _CONTROL_BIT:
        return ErrorCode.INVALID_RECORD
    if header.attributes & TRANSACTIONAL_BIT and header.producer_id < 0:
        return ErrorCode.INVALID_TXN_STATE
    if not header.attributes & _LOG_APPEND_TIME_BIT:
        return header, records
    if config.message_timestamp_type == LOG_APPEND_TIME or header.max_timestamp == NO_TIMESTAMP:
        # The broker sets the time of the append.
        return ErrorCode.INVALID_TIMESTAMP
    # Kafka checks its one timestamp, and stores it as a batch of CreateTime.
    header = header.with_create_time()
    records = memoryview(assemble_batch(header, records[HEADER_BYTES:]))
    return header, records
