"""What must be true of a data directory after a start, whatever came before. Each check names the rule it holds."""

from __future__ import annotations

import copy

from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.log_directory import OpenedPartition
from services.logstore.core.storage.segment import Segment
from tests.crash import naive
from tests.crash.life import Life
from tests.crash.naive import NaiveSegment
from tests.crash.truth import TruePartition
from tests.crash.world import End, World

LEFTOVERS = (".tmp", ".cleaned", ".swap", ".deleted")
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def check_opened(world: World, life: Life, end: End) -> None:
    """Everything, of everything that was found. The truth is cut to what the logs still have."""
    disk = world.disk
    interval_bytes = int(world.defaults["index.interval.bytes"])
    found = _found(world, life)
    for truth in world.truths:
        if truth.is_deleted:
            continue
        opened = found.get((truth.topic_id, truth.partition))
        if opened is None:
            _check_absent(world, truth, end)
            continue
        log = opened.opened.log
        segments = naive.read_segments(disk, log.directory)
        check_prefix(truth, segments, log, end)
        _cut(world, truth, log.log_end_offset, end)
        check_offsets(truth, opened)
        check_leader_epochs(segments, log)
        check_producers(segments, log)
        check_snapshots(world, segments, log)
        for segment in log.segments.all():
            plain = next(each for each in segments if each.base_offset == segment.base_offset)
            path = f"{log.directory}/{segment.base_offset:020d}"
            check_offset_index(f"{path}.index", plain, segment, interval_bytes)
            is_active = segment is log.segments.active
            check_time_index(f"{path}.timeindex", plain, segment, interval_bytes, is_active=is_active)
        names = [entry.name for entry in disk.list(log.directory)]
        leftovers = [name for name in names if name.endswith(LEFTOVERS)]
        assert not leftovers, f"left in {log.directory}: {leftovers}"
    check_second_start(world, life)


def _found(world: World, life: Life) -> dict[tuple[bytes, int], OpenedPartition]:
    found: dict[tuple[bytes, int], OpenedPartition] = {}
    for opened in life.loaded:
        topic, number = opened.topic_partition
        assert opened.topic_id is not None
        truth = world.truth(opened.topic_id, number)
        assert truth.topic == topic
        assert found.setdefault((truth.topic_id, number), opened) is opened, f"{truth.name} is there twice"
    return found


def _check_absent(world: World, truth: TruePartition, end: End) -> None:
    promised = truth.durable_offset if end is End.POWER_CUT else truth.written_offset
    assert promised == 0, f"{truth.name} is gone, and held everything below {promised}"
    _cut(world, truth, 0, end)


def _cut(world: World, truth: TruePartition, end_offset: int, end: End) -> None:
    lost = truth.cut(end_offset)
    world.hits["batches lost that were not promised"] += len(lost)
    if end is End.POWER_CUT:
        # What has been found on the platter is on the platter.
        truth.durable_offset = end_offset
    for producer in world.producers:
        if producer.truth is truth:
            producer.log_was_cut(lost)


def check_prefix(truth: TruePartition, segments: list[NaiveSegment], log: PartitionLog, end: End) -> None:
    """A prefix of what was appended, without gap or repetition, that has everything that was promised."""
    name = truth.name
    assert [each.base_offset for each in segments] == [each.base_offset for each in log.segments.all()]
    next_offset = segments[0].base_offset
    assert next_offset <= truth.log_start_asked, f"{name} begins at {next_offset}"
    index = truth.holding(next_offset) if truth.batches else 0
    for segment in segments:
        assert segment.base_offset == next_offset, f"{name}: a segment at {segment.base_offset} follows {next_offset}"
        assert segment.torn_bytes == 0, f"{name}: {segment.torn_bytes} bytes follow {segment.next_offset}"
        for batch in segment.batches:
            assert index < len(truth.batches), f"{name}: {batch.header} was never appended"
            expected = truth.batches[index]
            assert batch.content == expected.content, f"{name}: {batch.header} instead of {expected.header}"
            index += 1
        next_offset = segment.next_offset
    assert log.log_end_offset == log.next_offset == next_offset, f"{name} ends at {log.log_end_offset}"
    assert next_offset >= truth.durable_offset, (
        f"{name} ends at {next_offset}; everything below {truth.durable_offset} was flushed"
    )
    if end is not End.POWER_CUT:
        assert next_offset >= truth.written_offset, (
            f"{name} ends at {next_offset}; everything below {truth.written_offset} was written"
        )


def check_offsets(truth: TruePartition, opened: OpenedPartition) -> None:
    log = opened.opened.log
    name = truth.name
    assert 0 <= opened.high_watermark <= log.log_end_offset, f"{name}: high watermark {opened.high_watermark}"
    assert log.log_start_offset <= min(truth.log_start_asked, log.log_end_offset)
    assert log.recovery_point <= log.log_end_offset


def check_leader_epochs(segments: list[NaiveSegment], log: PartitionLog) -> None:
    expected = naive.leader_epochs(segments)
    assert log.leader_epochs.entries() == expected, (
        f"{log.directory}: leader epochs {log.leader_epochs.entries()}, and its batches say {expected}"
    )


def check_producers(segments: list[NaiveSegment], log: PartitionLog) -> None:
    """A snapshot keeps each producer's last batch only: what is known besides is a suffix of the last five."""
    expected = naive.producers(segments, log.log_end_offset)
    known = {entry.producer_id: entry for entry in log.producers.entries()}
    assert sorted(known) == sorted(expected), f"{log.directory}: producers {sorted(known)}, not {sorted(expected)}"
    for producer_id, entry in known.items():
        batches = [tuple(batch) for batch in entry.batches]
        full = expected[producer_id]
        assert entry.producer_epoch == full.epoch
        assert batches, f"{log.directory}: nothing known of producer {producer_id}"
        assert full.batches[-len(batches) :] == batches, (
            f"{log.directory}: producer {producer_id} {batches}, not {full.batches}"
        )
        assert entry.last_timestamp_ms == full.batches[-1][3]


def check_snapshots(world: World, segments: list[NaiveSegment], log: PartitionLog) -> None:
    """A snapshot that can be read tells of exactly the batches before it; there is none past the end."""
    for entry in world.disk.list(log.directory):
        if not entry.name.endswith(".snapshot"):
            continue
        offset = int(entry.name[:20])
        assert offset <= log.log_end_offset, f"{log.directory}: {entry.name} is past {log.log_end_offset}"
        content = naive.snapshot(world.disk.read_file(f"{log.directory}/{entry.name}"))
        if content is not None:
            expected = naive.producers(segments, offset)
            last = {id_: (each.epoch, *each.batches[-1][:3]) for id_, each in expected.items()}
            assert content == last, f"{log.directory}: {entry.name} says {content}, and its batches say {last}"


def check_offset_index(path: str, plain: NaiveSegment, segment: Segment, interval_bytes: int) -> None:
    index = segment.offset_index
    entries = [index.entry(position) for position in range(len(index))]
    expected = naive.offset_entries(plain, interval_bytes)
    assert entries == expected, f"{path}: {entries}, not {expected}"
    for _, header, _ in plain.batches:
        for offset in (header.base_offset, header.last_offset):
            position = index.position_before(offset)
            begins = [each for each in plain.batches if each.position == position]
            assert begins, f"{path}: no batch begins at {position}"
            assert begins[0].header.base_offset <= offset, f"{path}: {offset} is looked for at {position}"


def check_time_index(path: str, plain: NaiveSegment, segment: Segment, interval_bytes: int, *, is_active: bool) -> None:
    """An entry names the largest timestamp so far, and the batch that was the first to have it."""
    index = segment.time_index
    entries = [index.entry(position) for position in range(len(index))]
    assert entries == sorted(entries), f"{path} does not ascend"
    for timestamp_ms, offset in entries:
        expected = naive.max_timestamp(plain, offset)
        assert (timestamp_ms, offset) == expected, f"{path}: {(timestamp_ms, offset)}, not {expected}"
    largest = naive.max_timestamp(plain, plain.next_offset)
    assert segment.max_timestamp() == largest, f"{path}: the largest is {segment.max_timestamp()}, not {largest}"
    for offset, _ in naive.offset_entries(plain, interval_bytes):
        needed = naive.max_timestamp(plain, offset)
        assert needed in entries or needed[0] < 0, f"{path} has no entry {needed}"
    if not is_active and plain.batches:
        assert entries, f"{path} of a closed segment has no entry"
        assert entries[-1] == largest


def check_second_start(world: World, life: Life) -> None:
    """To start again changes nothing."""
    disk = copy.deepcopy(world.disk)
    again = Life(
        disk,
        world.shape.directories,
        world.defaults,
        boot_id=f"boot {world.boots}",
        unique=lambda: "f" * 32,
        broker_epoch=1,
        now_ms=world.now_ms,
        written=lambda effect: None,
    )
    before, after = _summary(life), _summary(again)
    for name, state in before.items():
        assert after.get(name) == state, f"{name} after a second start: {after.get(name)}, not {state}"
    assert len(after) == len(before)


def _summary(life: Life) -> dict[str, tuple[object, ...]]:
    return {
        opened.opened.log.directory: (
            opened.topic_id,
            opened.high_watermark,
            opened.opened.log.log_start_offset,
            opened.opened.log.log_end_offset,
            [segment.base_offset for segment in opened.opened.log.segments.all()],
            [segment.byte_count for segment in opened.opened.log.segments.all()],
            opened.opened.log.leader_epochs.entries(),
            sorted(
                (entry.producer_id, entry.producer_epoch, entry.last_sequence)
                for entry in opened.opened.log.producers.entries()
            ),
        )
        for opened in life.loaded
    }
