"""Which batches a leader takes from a client (Kafka's LogValidator and the checks before it).

Nothing here looks at single records: their number comes from the header, and timestamps are held to their bounds by
the header's first and largest. What Kafka checks by opening batches (a null key in a compacted topic, timestamps in
between) is not checked.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    MAGIC,
    RECORD_BYTES_MIN,
    BatchHeader,
    Compression,
    crc_is_valid,
    parse_header,
)

_MAGIC_POSITION = 16
_LOG_APPEND_TIME_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20
_CODECS = frozenset(int(codec) for codec in Compression)
_REFUSED_BITS = _LOG_APPEND_TIME_BIT | _TRANSACTIONAL_BIT | _CONTROL_BIT


def check_client_batch(records: memoryview, config: TopicConfig, wall_ms: int) -> BatchHeader | ErrorCode:
    """The header of the one batch in `records`, or why it is refused. `wall_ms` is the broker's clock."""
    byte_count = len(records)
    if byte_count < HEADER_BYTES or records[_MAGIC_POSITION] != MAGIC:
        return _malformed(records)
    header = parse_header(records)
    if header.size_bytes != byte_count:
        # Too short to be a batch; or not exactly one batch, as Produce v3 and later must carry for each partition.
        return ErrorCode.CORRUPT_MESSAGE if header.size_bytes < HEADER_BYTES else ErrorCode.INVALID_RECORD
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
        # Offsets that no record could bear: the log would jump by as many as the header claims.
        return ErrorCode.INVALID_RECORD
    if header.attributes & _REFUSED_BITS:
        return _refused_attributes(header.attributes)
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return ErrorCode.INVALID_RECORD
    if config.message_timestamp_type != LOG_APPEND_TIME:
        latest_ms = wall_ms + config.message_timestamp_after_max_ms
        earliest_ms = wall_ms - config.message_timestamp_before_max_ms
        base_timestamp, max_timestamp = header.base_timestamp, header.max_timestamp
        if (base_timestamp >= 0 and not earliest_ms <= base_timestamp <= latest_ms) or (
            max_timestamp >= 0 and not earliest_ms <= max_timestamp <= latest_ms
        ):
            return ErrorCode.INVALID_TIMESTAMP
    return header


def _malformed(records: memoryview) -> ErrorCode:
    """Torn, or of magic 0 or 1, which Produce v3 and later must not carry; of any other magic it is garbage."""
    is_known_magic = len(records) <= _MAGIC_POSITION or records[_MAGIC_POSITION] <= MAGIC
    return ErrorCode.INVALID_RECORD if is_known_magic else ErrorCode.CORRUPT_MESSAGE


def _refused_attributes(attributes: int) -> ErrorCode:
    if attributes & _CONTROL_BIT:
        return ErrorCode.INVALID_RECORD
    if attributes & _TRANSACTIONAL_BIT:
        # A transaction has to be known to its coordinator before its first batch (KIP-890), and none is.
        return ErrorCode.INVALID_TXN_STATE
    # The time of the append is the broker's to set.
    return ErrorCode.INVALID_TIMESTAMP
