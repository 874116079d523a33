"""What a pass does to single batches and segments."""

from __future__ import annotations

import pytest

from barnabas.runtime.compression import CODECS
from barnabas.wire.record_batch import Compression, Record, assemble_batch, build_batch, parse_header
from barnabas_logstore.core.maintenance.cleanable import cleanable
from barnabas_logstore.core.storage.compaction.cleaner import Cleaner
from barnabas_logstore.core.storage.compaction.cleaning_pass import CleaningPass
from barnabas_logstore.core.storage.compaction.groups import SEGMENTS_MAX, group_segments
from barnabas_logstore.core.storage.compaction.offset_map import ENTRY_BYTES, entries_within
from barnabas_logstore.core.storage.compaction.orders import (
    CleanedSegment,
    PassEnded,
    PassOutcome,
    SourceSegment,
    UncleanableLog,
)
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import AbortedTransaction
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.segment.scan import RELATIVE_OFFSET_MAX
from barnabas_logstore.core.storage.segment.transaction_index import parse_transaction_index
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.compaction.support import (
    BUFFER_BYTES,
    DAY_MS,
    KEYS_MAX,
    LogWriter,
    batches_of,
    clean,
    compacted_topic,
    compress,
    keyed,
    marker,
    values_of,
)
from tests.unit.logstore.storage.support import DIRECTORY, WALL_MS, lookup, read, run_read


def log_of(disk: DiskModel, *segments: list[Record], **settings: object) -> PartitionLog:
    """One batch to a segment, and an active one behind."""
    writer = LogWriter(disk)
    for records in segments:
        writer.records(*records)
        writer.roll()
    writer.records(keyed("active", "a"))
    return writer.open(compacted_topic(**settings))


def test_of_every_key_the_latest_value_stays_at_its_offset() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1"), keyed("b", "1"), keyed("a", "2")], [keyed("b", "2"), keyed("c", "1")])
    clean(disk, log)
    assert values_of(disk, log) == [(2, "a", "2"), (3, "b", "2"), (4, "c", "1"), (5, "active", "a")]
    assert [segment.base_offset for segment in log.segments.all()] == [0, 5]


def test_the_active_segment_is_not_touched() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("active", "0")])
    clean(disk, log)
    assert values_of(disk, log) == [(0, "active", "0"), (1, "active", "a")]


def test_a_batch_that_keeps_all_its_records_keeps_its_bytes() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1")], [keyed("b", "1"), keyed("c", "1")])
    before = [disk.read_at(segment.file, 0, segment.byte_count) for segment in log.segments.all()[:2]]
    clean(disk, log)
    assert disk.read_at(log.segments.first.file, 0, log.segments.first.byte_count) == b"".join(before)


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_that_loses_records_keeps_its_codec_and_its_place(codec: Compression) -> None:
    disk = DiskModel()
    writer = LogWriter(disk)
    writer.records(*[keyed(f"k{number % 7}", "value " * number) for number in range(20)], codec=codec)
    writer.roll()
    writer.records(keyed("active", "a"))
    log = writer.open(compacted_topic())
    clean(disk, log)
    header, records = batches_of(disk, log)[0]
    assert (header.compression, header.base_offset, header.last_offset) == (codec, 0, 19)
    assert [record.offset for record in records] == list(range(13, 20))


def test_records_without_a_key_go_and_are_counted() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed(None, "1"), keyed("a", "1")], [keyed(None, "2")])
    clean(disk, log)
    assert [key for _, key, _ in values_of(disk, log)] == ["a", "active"]


def test_a_tombstone_stays_until_its_horizon_which_the_first_pass_sets() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1"), keyed("b", "1", WALL_MS - 5)], [keyed("a", None, WALL_MS + 3)])
    clean(disk, log, WALL_MS)
    assert [value for value in values_of(disk, log) if value[1] == "a"] == [(2, "a", None)]
    header, records = batches_of(disk, log)[1]
    assert header.has_delete_horizon
    assert header.base_timestamp == WALL_MS + DAY_MS
    assert records[0].timestamp_ms == header.max_timestamp == WALL_MS + 3
    clean(disk, log, WALL_MS + DAY_MS - 1)
    assert (2, "a", None) in values_of(disk, log)
    clean(disk, log, WALL_MS + DAY_MS)
    assert [key for _, key, _ in values_of(disk, log)] == ["b", "active"]


def test_a_tombstone_may_stay_for_ever() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", None)], delete_retention_ms=2**63 - 1)
    clean(disk, log)
    header, records = batches_of(disk, log)[0]
    assert header.base_timestamp == 2**63 - 1
    assert records[0].timestamp_ms == WALL_MS


def test_the_last_batch_of_a_producer_stays_without_its_records() -> None:
    disk = DiskModel()
    writer = LogWriter(disk)
    writer.add(build_batch([keyed("a", "1"), keyed("a", "2")], producer_id=7, producer_epoch=3, base_sequence=5))
    writer.records(keyed("a", "3"))
    writer.roll()
    writer.records(keyed("active", "a"))
    log = writer.open(compacted_topic())
    clean(disk, log)
    header, records = batches_of(disk, log)[0]
    assert records == []
    assert (header.base_offset, header.last_offset, header.producer_id) == (0, 1, 7)
    assert (header.producer_epoch, header.last_sequence) == (3, 6)


def test_an_aborted_transaction_goes_and_its_marker_when_nothing_is_left_of_it() -> None:
    disk = DiskModel()
    writer = LogWriter(disk)
    writer.records(keyed("a", "committed"))
    first = writer.add(build_batch([keyed("a", "x")], producer_id=9, producer_epoch=0, is_transactional=True))
    end = writer.add(marker(9, is_commit=False))
    writer.aborted(AbortedTransaction(9, first, end, writer.next_offset))
    writer.records(keyed("b", "1"))
    writer.roll()
    writer.records(keyed("active", "a"))
    log = writer.open(compacted_topic())
    # A producer that is known keeps its last batch, and that one its marker.
    log.producers.remove_expired(WALL_MS + DAY_MS, DAY_MS)
    index = f"{DIRECTORY}/{0:020d}.txnindex"
    clean(disk, log)
    assert values_of(disk, log) == [(0, "a", "committed"), (3, "b", "1"), (4, "active", "a")]
    assert [header.base_offset for header, _ in batches_of(disk, log) if header.is_control] == [end]
    assert parse_transaction_index(disk.read_file(index)) == [AbortedTransaction(9, first, end, end + 1)]
    # Nothing of it is met by the second pass, which sets the marker's horizon, and the third is past that.
    for pass_ms in (WALL_MS, WALL_MS + DAY_MS):
        clean(disk, log, pass_ms)
    assert [header.base_offset for header, _ in batches_of(disk, log) if header.is_control] == []
    assert not disk.exists(index)


def test_a_committed_transaction_keeps_its_marker_while_it_has_records() -> None:
    disk = DiskModel()
    writer = LogWriter(disk)
    writer.add(build_batch([keyed("a", "1")], producer_id=9, producer_epoch=0, is_transactional=True))
    writer.add(marker(9, is_commit=True))
    writer.roll()
    writer.records(keyed("active", "a"))
    log = writer.open(compacted_topic(delete_retention_ms=0))
    for number in range(3):
        clean(disk, log, WALL_MS + number)
    assert [header.base_offset for header, _ in batches_of(disk, log) if header.is_control] == [1]
    assert not any(header.has_delete_horizon for header, _ in batches_of(disk, log))


def test_a_full_map_ends_a_pass_early_and_the_next_goes_on_there() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed(f"k{number % 5}", str(number)) for number in range(10)])
    statistics = clean(disk, log, keys_max=3)
    assert statistics.map_is_full
    assert log.first_dirty_offset == 3
    passes = 0
    while log.first_dirty_offset < 10:
        clean(disk, log, keys_max=3)
        passes += 1
    assert passes == 3
    assert [offset for offset, _, _ in values_of(disk, log)] == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("segment_bytes", [BUFFER_BYTES // 10, 10 * BUFFER_BYTES])
def test_batches_larger_than_the_buffer_are_read_whole(segment_bytes: int) -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "x" * 3000)], [keyed("b", "y" * 2000), keyed("a", "z")], segment_bytes=segment_bytes)
    clean(disk, log)
    assert [(offset, key) for offset, key, _ in values_of(disk, log)] == [(1, "b"), (2, "a"), (3, "active")]


# --- what can't be opened ---


def garbage(codec: int, payload: bytes, records_count: int = 1) -> bytes:
    """A batch with a right CRC over bytes that are no records."""
    header = parse_header(build_batch([keyed("a", "1")]))
    return assemble_batch(header._replace(attributes=codec, records_count=records_count), payload)


@pytest.mark.parametrize(
    "batch",
    [
        garbage(Compression.LZ4, b"no lz4 at all"),
        garbage(7, b"there is no such codec"),
        garbage(0, b"\xff" * 40),
        garbage(0, b""),
        garbage(0, b"\x10\0\0\0\x7fkey\1\0"),
        garbage(0, b"", records_count=-3),
        compress(build_batch([keyed("a", "0" * 2**20)] * 65), Compression.ZSTD),
    ],
    ids=["not-lz4", "unknown-codec", "no-records", "empty", "key-too-long", "negative-count", "bomb"],
)
def test_a_batch_that_cant_be_opened_makes_the_log_uncleanable_and_changes_nothing(batch: bytes) -> None:
    disk = DiskModel()
    writer = LogWriter(disk)
    writer.records(keyed("a", "1"))
    writer.add(batch)
    writer.roll()
    writer.records(keyed("active", "a"))
    log = writer.open(compacted_topic())
    with pytest.raises(UncleanableLog, match="the batch at offset 1"):
        clean(disk, log)
    assert log.segments.first.byte_count == disk.size(log.segments.first.file)


def test_a_flipped_bit_is_found_before_it_is_sealed_with_a_new_crc() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1"), keyed("a", "2")])
    disk.write_at(log.segments.first.file, 70, (b"\xff",))
    with pytest.raises(UncleanableLog, match="CRC"):
        clean(disk, log)


# --- the cleaner ---


def run_cleaner(
    disk: DiskModel, log: PartitionLog, cancel_after: int | None = None
) -> list[CleanedSegment | PassEnded]:
    cleaner = Cleaner(lambda: disk, CODECS, dedupe_buffer_bytes=2**20, io_buffer_bytes=2 * BUFFER_BYTES)
    cleaner.begin(cleanable(log, log.log_end_offset, WALL_MS).order(5, WALL_MS), now_ms=100)
    reports = []
    for step in range(100):
        if step == cancel_after:
            cleaner.cancel(4)
            cleaner.cancel(5)
        _, report = cleaner.step(now_ms=100 + step)
        if report is not None:
            reports.append(report)
        if not cleaner.is_busy:
            return reports
    raise AssertionError("a pass that never ends")


def test_the_cleaner_reports_its_segments_in_order_and_then_its_end() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1" * 400)], [keyed("b", "1" * 400)], segment_bytes=500)
    first, second, ended = run_cleaner(disk, log)
    assert isinstance(first, CleanedSegment)
    assert isinstance(second, CleanedSegment)
    assert isinstance(ended, PassEnded)
    assert [first.replaced, second.replaced] == [[0], [1]]
    assert (ended.outcome, ended.next_dirty_offset) == (PassOutcome.DONE, 2)
    assert 0 < ended.statistics.map_took_ms < ended.statistics.took_ms


def test_a_cancelled_pass_ends_as_aborted() -> None:
    disk = DiskModel()
    (ended,) = run_cleaner(disk, log_of(disk, [keyed("a", "1")]), cancel_after=1)
    assert isinstance(ended, PassEnded)
    assert ended.outcome is PassOutcome.ABORTED


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Fault("read_at", ".log"), PassOutcome.DISK_ERROR),
        (Fault("flush", ".cleaned"), PassOutcome.DISK_ERROR),
    ],
)
def test_an_error_of_the_disk_ends_the_pass(fault: Fault, outcome: PassOutcome) -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1")])
    disk.faults.append(fault)
    ended = run_cleaner(disk, log)[-1]
    assert isinstance(ended, PassEnded)
    assert (ended.outcome, ended.disk_error) == (outcome, fault.kind)


def test_a_full_disk_and_a_log_that_is_gone_only_abort_it() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1" * 2000)])
    disk.capacity_bytes = disk.used_bytes() + 100
    ended = run_cleaner(disk, log)[-1]
    assert isinstance(ended, PassEnded)
    assert ended.outcome is PassOutcome.ABORTED
    disk.capacity_bytes = None
    disk.rename(DIRECTORY, f"{DIRECTORY}.x-delete")
    ended = run_cleaner(disk, log)[-1]
    assert isinstance(ended, PassEnded)
    assert ended.outcome is PassOutcome.ABORTED


# --- groups, the map ---


def grouped(segments: list[SourceSegment], end_offset: int, **settings: object) -> list[list[int]]:
    groups = group_segments(segments, {}, compacted_topic(**settings), end_offset)
    return [[segment.base_offset for segment in group.segments] for group in groups]


def test_neighbours_are_grouped_as_far_as_they_fit_into_a_segment() -> None:
    segments = [SourceSegment(offset, 40) for offset in range(0, 60, 10)]
    assert grouped(segments, 60, segment_bytes=100) == [[0, 10], [20, 30], [40, 50]]
    assert grouped(segments, 60, segment_bytes=10) == [[0], [10], [20], [30], [40], [50]]
    assert grouped(segments, 60, segment_bytes=1000) == [[0, 10, 20, 30, 40, 50]]


def test_a_group_is_no_wider_than_a_relative_offset() -> None:
    segments = [SourceSegment(0, 1), SourceSegment(10, 1), SourceSegment(20, 1)]
    assert grouped(segments, RELATIVE_OFFSET_MAX + 1) == [[0, 10, 20]]
    assert grouped(segments, RELATIVE_OFFSET_MAX + 2) == [[0, 10], [20]]


def test_a_group_has_a_bounded_number_of_segments() -> None:
    segments = [SourceSegment(offset, 1) for offset in range(SEGMENTS_MAX + 1)]
    assert [len(group) for group in grouped(segments, SEGMENTS_MAX + 1)] == [SEGMENTS_MAX, 1]


def test_indexes_of_a_group_fit_too() -> None:
    segments = [SourceSegment(0, 1), SourceSegment(1, 1)]
    sizes = {f"{offset:020d}.index": 60 for offset in (0, 1)}
    assert len(group_segments(segments, sizes, compacted_topic(segment_index_bytes=100), 2)) == 2
    assert len(group_segments(segments, sizes, compacted_topic(segment_index_bytes=120), 2)) == 1


def test_the_map_keeps_to_its_bytes() -> None:
    assert entries_within(128 * 1024 * 1024 * 9 // 10) == 699_050
    for byte_count in (1, 1000, 10**6, 10**8):
        entries = entries_within(byte_count)
        assert entries * (ENTRY_BYTES - 6) <= max(byte_count, ENTRY_BYTES)


# --- reads and lookups meanwhile ---


def test_a_read_that_has_begun_goes_on_over_a_swap() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1" * 300)], [keyed("b", "2" * 300)], [keyed("a", "3")])
    plan = log.plan_read(1, 100, log.log_end_offset, min_one_batch=True)
    assert plan is not None
    assert not isinstance(plan, int)
    found = run_read(disk, plan.effect)
    clean(disk, log)
    answer = log.finish_read(plan, found)
    while isinstance(answer, ReadBatchesEffect):
        answer = log.finish_read(plan, run_read(disk, answer))
    assert isinstance(answer, memoryview)
    assert parse_header(answer).base_offset == 1


def test_reads_find_the_next_batch_where_records_are_gone() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1")], [keyed("b", "1")], [keyed("a", "2")])
    clean(disk, log)
    data = read(disk, log, 0, 10**6)
    assert isinstance(data, bytes)
    assert parse_header(data).base_offset == 1


def test_a_lookup_by_time_goes_on_over_a_swap() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1", WALL_MS)], [keyed("b", "1", WALL_MS + 50)], [keyed("a", "2", WALL_MS + 10)])
    steps = log.lookup_timestamp(WALL_MS + 50, log.log_end_offset, CODECS.decompress)
    effect = next(steps)
    clean(disk, log)
    found = None
    while found is None:
        try:
            effect = steps.send(execute(disk, effect))
        except StopIteration as done:
            found = done.value
    assert found.offset == 1
    assert lookup(disk, log, WALL_MS + 50).offset == 1


def test_an_aborted_pass_leaves_files_that_a_start_drops() -> None:
    disk = DiskModel()
    log = log_of(disk, [keyed("a", "1")], [keyed("a", "2")])
    order = cleanable(log, log.log_end_offset, WALL_MS).order(1, WALL_MS)
    list(CleaningPass(disk, order, CODECS, KEYS_MAX, BUFFER_BYTES).steps())
    assert any(entry.name.endswith(".cleaned") for entry in disk.list(DIRECTORY))
    log = LogWriter(disk).open(compacted_topic())
    assert not any(entry.name.endswith(".cleaned") for entry in disk.list(DIRECTORY))
    assert [offset for offset, _, _ in values_of(disk, log)] == [0, 1, 2]
