"""ListOffsets: special timestamps, and the first record at or after a time."""

from __future__ import annotations

import zlib

import pytest

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.storage.effect_results import OffsetAtTimestamp
from barnabas_logstore.core.storage.log.features.timestamp_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NO_OFFSET,
)
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import WALL_MS, append, batch, lookup, new_log, settle
from tests.unit.logstore.storage.test_append import patched


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


@pytest.fixture
def log(disk: DiskModel) -> PartitionLog:
    """Three records a batch, a millisecond apart; batches 10 ms apart; five segments; two leader epochs."""
    log = new_log(disk, TopicConfig(segment_bytes=4 * len(batch(3)), index_interval_bytes=100))
    for number in range(20):
        append(log, batch(3, timestamp_ms=WALL_MS + 10 * number), leader_epoch=number // 10)
    settle(disk, log)
    return log


def test_latest_is_the_bound_and_earliest_the_logs_start(disk: DiskModel, log: PartitionLog) -> None:
    assert lookup(disk, log, LATEST) == OffsetAtTimestamp(-1, 60, 1)
    assert lookup(disk, log, LATEST, upto_offset=9) == OffsetAtTimestamp(-1, 9, 0)
    assert lookup(disk, log, EARLIEST) == OffsetAtTimestamp(-1, 0, 0)
    assert lookup(disk, log, EARLIEST_LOCAL) == OffsetAtTimestamp(-1, 0, 0)


def test_there_is_no_remote_storage(disk: DiskModel, log: PartitionLog) -> None:
    assert lookup(disk, log, LATEST_TIERED) == NO_OFFSET
    assert lookup(disk, log, EARLIEST_PENDING_UPLOAD) == NO_OFFSET


def test_the_first_record_at_or_after_a_time(disk: DiskModel, log: PartitionLog) -> None:
    for number in range(20):
        for delta, (expected_ms, offset) in {-5: (0, 0), 0: (0, 0), 1: (1, 1), 2: (2, 2)}.items():
            wanted = WALL_MS + 10 * number + delta
            expected = OffsetAtTimestamp(WALL_MS + 10 * number + expected_ms, 3 * number + offset, number // 10)
            assert lookup(disk, log, wanted) == expected


def test_a_time_after_the_last_record_has_no_offset(disk: DiskModel, log: PartitionLog) -> None:
    assert lookup(disk, log, WALL_MS + 193) == NO_OFFSET


def test_records_at_or_past_the_bound_are_not_seen(disk: DiskModel, log: PartitionLog) -> None:
    assert lookup(disk, log, WALL_MS + 30, upto_offset=9) == NO_OFFSET
    assert lookup(disk, log, WALL_MS + 22, upto_offset=9).offset == 8


def test_max_timestamp_is_the_first_record_that_carries_it(disk: DiskModel) -> None:
    log = new_log(disk)
    for timestamp_ms in (5, 900, 7, 900, 30):
        append(log, batch(1, timestamp_ms=timestamp_ms))
    settle(disk, log)
    assert lookup(disk, log, MAX_TIMESTAMP) == OffsetAtTimestamp(900, 1, 0)


def test_max_timestamp_spans_segments(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(segment_bytes=len(batch())))
    for timestamp_ms in (5, 900, 7, 900):
        append(log, batch(1, timestamp_ms=timestamp_ms))
    settle(disk, log)
    assert len(log.segments) == 4
    assert lookup(disk, log, MAX_TIMESTAMP) == OffsetAtTimestamp(900, 1, 0)


def test_max_timestamp_of_an_empty_log_and_of_one_without_timestamps(disk: DiskModel) -> None:
    log = new_log(disk)
    assert lookup(disk, log, MAX_TIMESTAMP) == NO_OFFSET
    append(log, batch(timestamp_ms=-1))
    settle(disk, log)
    assert lookup(disk, log, MAX_TIMESTAMP) == NO_OFFSET
    assert lookup(disk, log, 0) == NO_OFFSET


def test_times_out_of_order_are_found_by_offset_not_by_time(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(index_interval_bytes=0))
    for timestamp_ms in (100, 300, 200, 400):
        append(log, batch(1, timestamp_ms=timestamp_ms))
    settle(disk, log)
    assert lookup(disk, log, 150) == OffsetAtTimestamp(300, 1, 0)
    assert lookup(disk, log, 350) == OffsetAtTimestamp(400, 3, 0)


def test_log_append_time_is_that_of_every_record_in_the_batch(disk: DiskModel) -> None:
    log = new_log(disk, TopicConfig(message_timestamp_type=LOG_APPEND_TIME))
    append(log, batch(3, timestamp_ms=1))
    settle(disk, log)
    assert lookup(disk, log, WALL_MS) == OffsetAtTimestamp(WALL_MS, 0, 0)


def compressed(records: list[Record]) -> bytes:
    """Codec 1 with zlib for a stand-in: the log never looks inside."""
    plain = build_batch(records)
    packed = bytearray(plain[:61] + zlib.compress(plain[61:]))
    packed[8:12] = (len(packed) - 12).to_bytes(4, "big")
    return patched(bytes(packed), 21, ">h", 1)


def test_a_compressed_batch_is_opened_for_its_own_records_within_a_limit(disk: DiskModel) -> None:
    log = new_log(disk)
    append(log, compressed([Record(None, b"a", 10), Record(None, b"b", 20), Record(None, b"c", 15)]))
    settle(disk, log)
    asked: list[tuple[int, int]] = []

    def decompress(codec: int, data: memoryview, limit_bytes: int) -> bytes | None:
        asked.append((codec, limit_bytes))
        return zlib.decompress(data)

    assert lookup(disk, log, 12, decompress=decompress) == OffsetAtTimestamp(20, 1, 0)
    assert asked == [(1, DECOMPRESSED_BYTES_MAX)]


@pytest.mark.parametrize("payload", [None, b"", b"\x7f\x00", b"\xff" * 40])
def test_a_batch_that_can_not_be_opened_is_answered_with_its_first_offset(
    disk: DiskModel, payload: bytes | None
) -> None:
    log = new_log(disk)
    append(log, batch(timestamp_ms=5))
    append(log, compressed([Record(None, b"a", 10), Record(None, b"b", 20)]))
    settle(disk, log)
    assert lookup(disk, log, 12, decompress=lambda codec, data, limit: payload) == OffsetAtTimestamp(20, 1, 0)


def test_a_header_that_overstates_its_largest_timestamp_ends_nothing(disk: DiskModel) -> None:
    log = new_log(disk)
    append(log, patched(batch(timestamp_ms=5), 35, ">q", 500))
    append(log, batch(timestamp_ms=400))
    settle(disk, log)
    assert lookup(disk, log, 300) == OffsetAtTimestamp(400, 1, 0)
