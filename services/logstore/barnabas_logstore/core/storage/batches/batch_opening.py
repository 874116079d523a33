"""Batches that have to be opened: for the codec of their topic (`compression.type`), for a key in every record
(`cleanup.policy=compact`), for the size of records (`max.decompressed.message.bytes`), or because their header can't be
right. Kafka's LogValidator, record by record. And the one batch that ListOffsets by time opens (`first_record_of`), of
whose records nothing is kept.

A batch is under its producer's control: this is work for a worker, bounded by what a batch may hold. Records are
checked, never re-encoded: if the codec changes, their bytes stay the same. The header gets their largest timestamp.

Errors: those of `batch_validation`; INVALID_RECORD for a batch that can't be opened, holds more than
DECOMPRESSED_BYTES_MAX or one record of more than the topic allows, or whose records don't match its header, offsets
included; INVALID_RECORD and INVALID_TIMESTAMP with the records at fault, in Kafka's words.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.channel.messages import RecordError
from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.cluster.topic_config_keys import UNBOUNDED_RECORD_BYTES
from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Codecs, Decompress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.lz4_frame import UNREADABLE, end_of_javas_frame
from barnabas.wire.primitives import Buffer, MalformedFrame, read_varint
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    assemble_batch,
    iterate_timestamps,
    parse_header,
)
from barnabas.wire.records import outline_records
from barnabas_logstore.core.storage.batches.batch_validation import Doubt, check_client_batch, must_be_opened
from barnabas_logstore.core.storage.effect_results import OffsetAtTimestamp, Refusal

RECORD_ERRORS_MAX = 100
"""Kafka names every record. A hundred of a million are enough for a client that gets all of them wrong."""

_TARGETS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_ATTRIBUTES_POSITION = 22
_COMPRESSION_MASK = 0x07
_SHOWN_ERRORS = 3
_TIMESTAMP_MAX = 2**63 - 1


def must_open(records: memoryview, config: TopicConfig, wall_ms: int) -> bool:
    """Whether this one has to be opened. (One that is too short for a header is refused without.)"""
    if len(records) < HEADER_BYTES:
        return False
    target = _TARGETS.get(config.compression_type)
    codec = records[_ATTRIBUTES_POSITION] & _COMPRESSION_MASK
    has_other_codec = target is not None and codec != target
    # A greater bound can't be exceeded by what may be opened.
    is_bounded = codec != Compression.NONE and config.max_decompressed_message_bytes < DECOMPRESSED_BYTES_MAX
    if has_other_codec or is_bounded or config.is_compacted:
        return True
    header = parse_header(records)
    return must_be_opened(header, records[: header.size_bytes], config, wall_ms)


def open_batch(
    records: memoryview, topic_partition: str, config: TopicConfig, wall_ms: int, codecs: Codecs
) -> memoryview | Refusal:
    """Return the batch as it may be appended. `topic_partition` is its name in messages."""
    checked = check_client_batch(records, config, wall_ms, is_examined=True)
    if isinstance(checked, ErrorCode):
        return Refusal(checked)
    assert not isinstance(checked, Doubt)
    header, records = checked
    compressed = records[HEADER_BYTES:]
    payload: Buffer | None = compressed
    if header.compression != Compression.NONE:
        if header.compression == Compression.LZ4 and end_of_javas_frame(compressed, len(compressed)) == UNREADABLE:
            return Refusal(ErrorCode.INVALID_RECORD, "Java's consumers can't read the lz4 frame")
        payload = codecs.decompress(header.compression, compressed, DECOMPRESSED_BYTES_MAX)
        if payload is None:
            message = f"The batch can't be decompressed, or holds more than {DECOMPRESSED_BYTES_MAX} bytes"
            return Refusal(ErrorCode.INVALID_RECORD, message)
    assert payload is not None
    validation = _Validation(header, topic_partition, config, wall_ms)
    try:
        max_timestamp = validation.look_at(payload)
    except MalformedFrame as fault:
        return Refusal(ErrorCode.INVALID_RECORD, str(fault))
    if validation.errors_count:
        return validation.refusal()
    target = _TARGETS.get(config.compression_type, header.compression)
    if target == header.compression and max_timestamp == header.max_timestamp:
        return records
    content: Buffer = compressed
    if target != header.compression:
        content = codecs.compress(target, payload, _level(target, config))
    new_header = header.with_compression(target)._replace(max_timestamp=max_timestamp)
    return memoryview(assemble_batch(new_header, content))


def _level(codec: int, config: TopicConfig) -> int | None:
    match codec:
        case Compression.GZIP:
            return config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


class _Validation:
    """One pass over every record of a batch."""

    def __init__(self, header: BatchHeader, topic_partition: str, config: TopicConfig, wall_ms: int) -> None:
        self._header = header
        self._topic_partition = topic_partition
        self._is_compacted = config.is_compacted
        self._has_bounds = config.message_timestamp_type != LOG_APPEND_TIME
        self._earliest_ms = wall_ms - config.message_timestamp_before_max_ms
        self._latest_ms = wall_ms + config.message_timestamp_after_max_ms
        # As in Kafka: max.message.bytes is enough for what is not compressed.
        is_compressed = header.compression != Compression.NONE
        self._record_bytes_max = config.max_decompressed_message_bytes if is_compressed else UNBOUNDED_RECORD_BYTES
        self._errors: list[RecordError] = []
        self._has_invalid_timestamp = False
        self.errors_count = 0

    def look_at(self, payload: Buffer) -> int:
        """Return the largest timestamp. Raises MalformedFrame."""
        max_timestamp = NO_TIMESTAMP
        earliest_ms, latest_ms = self._earliest_ms, self._latest_ms
        is_compacted, has_bounds = self._is_compacted, self._has_bounds
        for index, (offset_delta, timestamp_ms, key_length) in enumerate(self._records(payload)):
            if offset_delta != index:
                raise MalformedFrame(f"record {index} has the offset {offset_delta} in its batch")
            if timestamp_ms > max_timestamp:
                max_timestamp = timestamp_ms
            if key_length < 0 and is_compacted:
                self._blame(
                    index,
                    f"Compacted topic cannot accept message without key in topic partition {self._topic_partition}",
                )
            elif has_bounds and not earliest_ms <= timestamp_ms <= latest_ms and timestamp_ms != NO_TIMESTAMP:
                self._has_invalid_timestamp = True
                self._blame(
                    index,
                    f"Timestamp {timestamp_ms} of message with offset {offset_delta} is out of range. "
                    f"The timestamp should be within [{earliest_ms}, {latest_ms}]",
                )
        if max_timestamp > _TIMESTAMP_MAX:
            raise MalformedFrame(f"a record has the timestamp {max_timestamp}")
        return max_timestamp

    def _records(self, payload: Buffer) -> Iterator[tuple[int, int, int]]:
        base_timestamp, bytes_max = self._header.base_timestamp, self._record_bytes_max
        for start, end, timestamp_delta, offset_delta, _, key_length, _, _ in outline_records(
            payload, self._header.records_count
        ):
            if end - start > bytes_max:
                self._check_size(payload, start)
            yield offset_delta, base_timestamp + timestamp_delta, key_length

    def _check_size(self, payload: Buffer, start: int) -> None:
        """Raise MalformedFrame if the record at `start` is too long: the number in front of it does not count."""
        size, _ = read_varint(payload, start)
        if size > self._record_bytes_max:
            raise MalformedFrame(
                f"Invalid record size: {size} exceeds the configured maximum record size of {self._record_bytes_max}."
            )

    def _blame(self, index: int, message: str) -> None:
        self.errors_count += 1
        if len(self._errors) < RECORD_ERRORS_MAX:
            self._errors.append(RecordError(index, message))

    def refusal(self) -> Refusal:
        if self._has_invalid_timestamp:
            message = "One or more records have been rejected due to invalid timestamp"
            return Refusal(ErrorCode.INVALID_TIMESTAMP, message, self._errors)
        shown = ", ".join(
            f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
            for error in self._errors[:_SHOWN_ERRORS]
        )
        message = (
            f"One or more records have been rejected due to {self.errors_count} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
        return Refusal(ErrorCode.INVALID_RECORD, message, self._errors)


def first_record_of(
    header: BatchHeader,
    batch: memoryview,
    timestamp_ms: int,
    from_offset: int,
    decompress: Decompress,
    *,
    or_largest: bool = False,
) -> OffsetAtTimestamp | None:
    """None if every record from `from_offset` on is earlier; with `or_largest` the latest of them. A batch that can't
    be opened counts as if its first record matched.
    """
    epoch = header.partition_leader_epoch
    payload: Buffer | None = batch[HEADER_BYTES:]
    if header.compression != Compression.NONE:
        payload = decompress(header.compression, batch[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
    if payload is not None:
        largest = None
        try:
            for offset, record_timestamp_ms in iterate_timestamps(header, payload):
                if record_timestamp_ms >= timestamp_ms and offset >= from_offset:
                    return OffsetAtTimestamp(record_timestamp_ms, offset, epoch)
                if or_largest and offset >= from_offset and (largest is None or record_timestamp_ms > largest[0]):
                    largest = record_timestamp_ms, offset
            return None if largest is None else OffsetAtTimestamp(*largest, epoch)
        except MalformedFrame:
            pass  # the producer's own bytes, under a correct CRC
    return OffsetAtTimestamp(header.max_timestamp, max(header.base_offset, from_offset), epoch)
