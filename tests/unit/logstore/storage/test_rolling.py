"""When a segment ends, and what is durable by then."""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from barnabas_logstore.core.storage.log.state.producer_state import parse_snapshot
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.storage.support import (
    DIRECTORY,
    WALL_MS,
    append,
    batch,
    examined_append,
    new_log,
    read_all,
    settle,
)


def base_offsets(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments.all()]


def test_a_segment_never_grows_past_segment_bytes() -> None:
    disk = DiskModel()
    records = batch()
    log = new_log(disk, TopicConfig(segment_bytes=2 * len(records)))
    for _ in range(5):
        append(log, records)
    settle(disk, log)
    assert base_offsets(log) == [0, 2, 4]
    assert [segment.byte_count for segment in log.segments.all()] == [2 * len(records), 2 * len(records), len(records)]
    assert read_all(disk, log) == [(offset, offset) for offset in range(5)]


def test_a_segment_rolls_when_a_batch_is_segment_ms_later_than_its_first() -> None:
    log = new_log(DiskModel(), TopicConfig(segment_ms=100))
    append(log, batch(timestamp_ms=WALL_MS))
    append(log, batch(timestamp_ms=WALL_MS + 100))
    append(log, batch(timestamp_ms=WALL_MS + 101))
    append(log, batch(timestamp_ms=WALL_MS - 5))
    assert base_offsets(log) == [0, 2]


def test_batches_without_timestamps_never_roll_by_time() -> None:
    log = new_log(DiskModel(), TopicConfig(segment_ms=100))
    append(log, batch(timestamp_ms=-1))
    append(log, batch(timestamp_ms=WALL_MS))
    assert base_offsets(log) == [0]


def test_jitter_brings_a_roll_forward_by_less_than_segment_jitter_ms() -> None:
    log = new_log(DiskModel(), TopicConfig(segment_ms=1000, segment_jitter_ms=300))
    append(log, batch(timestamp_ms=WALL_MS))
    append(log, batch(timestamp_ms=WALL_MS + 700))
    assert base_offsets(log) == [0]
    append(log, batch(timestamp_ms=WALL_MS + 1001))
    assert base_offsets(log) == [0, 2]


def test_a_full_index_ends_a_segment() -> None:
    log = new_log(DiskModel(), TopicConfig(index_interval_bytes=0, segment_index_bytes=48))
    for _ in range(9):
        append(log, batch())
    # Three entries fit (the time index needs room for a last one), the first batch has none.
    assert base_offsets(log) == [0, 4, 8]


def test_offsets_that_overflow_a_relative_offset_end_a_segment() -> None:
    log = new_log(DiskModel())
    append(log, batch())
    log.state.next_offset = 2**31 - 1
    append(log, batch())
    assert base_offsets(log) == [0]
    append(log, batch())
    assert base_offsets(log) == [0, 2**31]


def test_a_roll_flushes_the_closed_segment_with_indexes_snapshot_and_epochs() -> None:
    disk = DiskModel()
    records = batch(producer_id=9, producer_epoch=2, base_sequence=0)
    log = new_log(disk, TopicConfig(segment_bytes=len(records)))
    append(log, records, leader_epoch=3)
    settle(disk, log)
    assert log.recovery_point == 0
    append(log, batch(), leader_epoch=3)
    flush = log.begin_due_flush(0)
    assert flush is not None
    assert flush.upto_offset == 1
    execute(disk, flush)
    log.on_flushed(flush)
    assert log.recovery_point == 1
    names = {path.removeprefix(f"{DIRECTORY}/") for path in flush.files}
    stem = "0" * 20
    assert names == {f"{stem}.log", f"{stem}.index", f"{stem}.timeindex", f"{'0' * 19}1.snapshot"}
    assert flush.directories == [DIRECTORY, "/data"]
    assert disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n3 0\n"
    producers = parse_snapshot(disk.read_file(f"{DIRECTORY}/{'0' * 19}1.snapshot"))
    assert producers is not None
    assert [(producer.producer_id, producer.producer_epoch) for producer in producers] == [(9, 2)]


def test_a_closed_segment_is_flushed_only_once_all_of_it_is_written() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(segment_bytes=len(batch())))
    append(log, batch())
    append(log, batch())
    assert log.begin_due_flush(0) is None
    write = log.begin_write()
    assert write is not None
    assert write.end_offset == 1, "a write ends where its segment does"
    assert log.begin_due_flush(0) is None
    execute(disk, write)
    log.on_written(write)
    assert log.begin_due_flush(0) is not None
    assert log.begin_due_flush(0) is None, "one flush at a time"


def test_flush_messages_1_flushes_earlier_segments_before_a_later_one_counts() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(segment_bytes=len(batch()), flush_messages=1))
    append(log, batch())
    append(log, batch())
    settle(disk, log)
    append(log, batch())
    write = log.begin_write()
    assert write is not None
    assert write.flush is not None
    paths = [path for path in write.flush.files if path.endswith(".log")]
    assert paths == [f"{DIRECTORY}/{'0' * 19}1.log", f"{DIRECTORY}/{'0' * 19}2.log"]


def test_the_files_of_a_segment_are_made_by_its_first_write_and_fail_with_it() -> None:
    disk = DiskModel()
    log = new_log(disk, TopicConfig(segment_bytes=len(batch())))
    append(log, batch(), token="fits")
    append(log, batch(), token="fails")
    assert [entry.name for entry in disk.list(DIRECTORY) if entry.name.endswith(".log")] == [f"{0:020d}.log"]
    disk.faults.append(Fault("open", f"{'0' * 19}1.log"))
    assert settle(disk, log) == ["fits", "fails"]
    assert log.error is not None
    assert log.log_end_offset == 1


def test_a_segment_whose_first_batch_has_no_timestamp_rolls_by_the_clock() -> None:
    log = new_log(DiskModel(), TopicConfig(segment_ms=100))
    for wall_ms in (WALL_MS, WALL_MS + 50, WALL_MS + 150, WALL_MS + 151):
        assert isinstance(examined_append(log, batch(timestamp_ms=-1), wall_ms), AppendOutcome)
    assert base_offsets(log) == [0, 3]
