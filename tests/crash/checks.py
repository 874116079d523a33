"""What must be true of a data directory after a start, whatever came before. Each check names the rule it holds."""

from __future__ import annotations

import copy

from barnabas_logstore.core.storage.directories.log_directory import OpenedPartition
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.segment.segment import Segment
from tests.crash import naive
from tests.crash.batches import check_batch, check_compaction
from tests.crash.life import Life, LifeSettings
from tests.crash.naive import NaiveSegment
from tests.crash.truth import TrueBatch, TruePartition
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
        check_segments(truth, segments, log)
        check_batches(world, truth, segments)
        check_promises(truth, log, end)
        _cut(world, truth, log.log_end_offset, end)
        truth.files_begin = segments[0].base_offset
        truth.recovered_end = log.log_end_offset
        check_offsets(truth, opened)
        check_leader_epochs(truth, segments, log)
        check_producers(world, truth, segments, log)
        check_snapshots(world, truth, segments, log)
        if truth.was_ever_compacted:
            check_compaction(truth, segments, log.log_start_offset)
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


def check_segments(truth: TruePartition, segments: list[NaiveSegment], log: PartitionLog) -> None:
    """One follows the other, all of each is sound, and the log knows of these and no others."""
    name = truth.name
    assert [each.base_offset for each in segments] == [each.base_offset for each in log.segments.all()]
    next_offset = segments[0].base_offset
    assert next_offset <= truth.log_start_asked, f"{name} begins at {next_offset}"
    for segment in segments:
        assert segment.base_offset == next_offset, f"{name}: a segment at {segment.base_offset} follows {next_offset}"
        assert segment.torn_bytes == 0, f"{name}: {segment.torn_bytes} bytes follow {segment.next_offset}"
        next_offset = segment.next_offset
    assert log.log_end_offset == log.next_offset == next_offset, f"{name} ends at {log.log_end_offset}"


def check_batches(world: World, truth: TruePartition, segments: list[NaiveSegment]) -> None:
    """What was appended, in order, without a gap (but for compaction's) and nothing else."""
    next_offset = segments[0].base_offset
    for segment in segments:
        for _, header, content in segment.batches:
            if truth.at(header.base_offset) is None or header.base_offset >= truth.next_offset:
                _accept_taken_back(world, truth, content)
            batch = check_batch(truth, content)
            is_gap_allowed = truth.was_ever_compacted and batch.base_offset > next_offset
            assert batch.base_offset == next_offset or is_gap_allowed, f"{truth.name}: {header} follows {next_offset}"
            next_offset = batch.next_offset


def _accept_taken_back(world: World, truth: TruePartition, content: bytes) -> None:
    """Appends that found no room may be there after a crash, where nothing has taken their place."""
    for tail in truth.taken_back:
        if tail and tail[0].content == content and tail[0].base_offset == truth.next_offset:
            truth.accept_taken_back(tail)
            world.hits["batches back that had found no room"] += 1
            return


def check_promises(truth: TruePartition, log: PartitionLog, end: End) -> None:
    """Everything is there that was flushed; after the end of a process everything that was written."""
    end_offset = log.log_end_offset
    assert end_offset >= truth.durable_offset, (
        f"{truth.name} ends at {end_offset}; everything below {truth.durable_offset} was flushed"
    )
    assert end is End.POWER_CUT or end_offset >= truth.written_offset, (
        f"{truth.name} ends at {end_offset}; everything below {truth.written_offset} was written"
    )


def check_offsets(truth: TruePartition, opened: OpenedPartition) -> None:
    log = opened.opened.log
    name = truth.name
    assert log.log_start_offset <= opened.high_watermark <= log.log_end_offset, f"{name}: {opened.high_watermark}"
    assert log.log_start_offset <= truth.log_start_asked, f"{name} begins at {log.log_start_offset}"
    assert log.recovery_point <= log.log_end_offset


def check_leader_epochs(truth: TruePartition, segments: list[NaiveSegment], log: PartitionLog) -> None:
    """Those of the batches. The first entry may begin at a log start that a crash has taken back."""
    # One that begins at the end has no batch; a start may have dropped it.
    entries = [entry for entry in log.leader_epochs.entries() if entry[1] < log.log_end_offset]
    if not entries and truth.log_start_asked >= log.log_end_offset:
        return  # All was deleted, and its one entry began at the end; then a crash has taken that log start back.
    begins = max(log.log_start_offset, entries[0][1] if entries else 0)
    assert begins <= max(truth.log_start_asked, segments[0].base_offset), f"{truth.name}: epochs {entries}"
    expected = [entry for entry in truth.leader_epochs(begins) if entry[1] < log.log_end_offset]
    if truth.was_ever_compacted or not any(segment.batches for segment in segments):
        # Epochs whose batches are all gone may be known still.
        for segment in segments:
            for _, header, _ in segment.batches:
                if header.base_offset >= begins:
                    known = log.leader_epochs.epoch_of(header.base_offset)
                    assert known == header.partition_leader_epoch, f"{truth.name}: {header} is of epoch {known}"
        return
    assert entries == expected, f"{log.directory}: leader epochs {entries}, and its batches say {expected}"


def check_producers(world: World, truth: TruePartition, segments: list[NaiveSegment], log: PartitionLog) -> None:
    """Every producer with a batch in the log (and others that had one), with a suffix of the last five batches: a
    snapshot keeps each producer's last batch only.
    """
    known = {entry.producer_id: entry for entry in log.producers.entries()}
    needed = naive.producers(segments, log.log_end_offset)
    missing = [id_ for id_ in needed if id_ not in known and not world.may_have_expired(needed[id_].batches[-1][3])]
    assert not missing, f"{log.directory}: producers {missing} are not known"
    for producer_id, entry in known.items():
        if world.may_have_expired(entry.last_timestamp_ms):
            continue
        produced = truth.produced_by(producer_id)
        assert produced, f"{log.directory}: no producer wrote with id {producer_id}"
        full = [_noted(batch) for batch in produced]
        batches = [tuple(batch)[:3] for batch in entry.batches]
        assert entry.producer_epoch == produced[-1].header.producer_epoch, f"{log.directory}: producer {producer_id}"
        if truth.was_ever_compacted:
            is_sound = batches[-1:] == full[-1:] and [batch for batch in full if batch in batches] == batches
        else:
            is_sound = bool(batches) and full[-len(batches) :] == batches
        assert is_sound, f"{log.directory}: producer {producer_id} {batches}, not {full[-5:]}"


def _noted(batch: TrueBatch) -> tuple[int, int, int]:
    """(last sequence, last offset, offset delta): what is noted of a producer's batch."""
    return batch.header.last_sequence, batch.header.last_offset, batch.header.last_offset_delta


def _noted_whole(batch: TrueBatch) -> tuple[int, int, int, int]:
    return (batch.header.producer_epoch, *_noted(batch))


def check_snapshots(world: World, truth: TruePartition, segments: list[NaiveSegment], log: PartitionLog) -> None:
    """A snapshot that can be read tells of exactly the batches before it; there is none past the end."""
    for entry in world.disk.list(log.directory):
        if not entry.name.endswith(".snapshot"):
            continue
        offset = int(entry.name[:20])
        assert offset <= log.log_end_offset, f"{log.directory}: {entry.name} is past {log.log_end_offset}"
        content = naive.snapshot(world.disk.read_file(f"{log.directory}/{entry.name}"))
        if content is None:
            continue
        needed = naive.producers(segments, offset)
        missing = [
            id_ for id_ in needed if id_ not in content and not world.may_have_expired(needed[id_].batches[-1][3])
        ]
        assert not missing, f"{log.directory}: {entry.name} knows nothing of {missing}"
        for producer_id, noted in content.items():
            produced = truth.produced_by(producer_id, offset)
            if produced and world.may_have_expired(produced[-1].header.max_timestamp):
                continue
            expected = _noted_whole(produced[-1]) if produced else None
            if truth.was_ever_compacted and any(noted == _noted_whole(batch) for batch in produced):
                # Rebuilt by recovery, of what compaction has left: an earlier batch, which is no lie.
                continue
            assert noted == expected, f"{log.directory}: {entry.name} says {noted} of {producer_id}, not {expected}"


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
    if not is_active and largest[0] >= 0:
        assert entries, f"{path} of a closed segment has no entry"
        assert entries[-1] == largest


def check_second_start(world: World, life: Life) -> None:
    """To start again changes nothing."""
    disk = copy.deepcopy(world.disk)
    settings = LifeSettings(
        world.shape.directories,
        world.defaults,
        boot_id=f"boot {world.boots}",
        unique=lambda: "f" * 32,
        broker_epoch=1,
        now_ms=world.now_ms,
        options=dict(world.shape.options),
        dedupe_buffer_bytes=world.shape.dedupe_buffer_bytes,
    )
    again = Life(disk, settings, written=lambda effect: None, turned=lambda: None, is_deleted=world.is_deleted)
    before, after = _summary(world, life), _summary(world, again)
    for name, state in before.items():
        assert after.get(name) == state, f"{name} after a second start: {after.get(name)}, not {state}"
    assert len(after) == len(before)


def _summary(world: World, life: Life) -> dict[str, tuple[object, ...]]:
    """What is compared; epochs without a batch and producers that have expired may come and go."""
    summary: dict[str, tuple[object, ...]] = {}
    for opened in life.loaded:
        log = opened.opened.log
        producers = [entry for entry in log.producers.entries() if not world.may_have_expired(entry.last_timestamp_ms)]
        summary[log.directory] = (
            opened.topic_id,
            opened.high_watermark,
            log.log_start_offset,
            log.log_end_offset,
            [(segment.base_offset, segment.byte_count) for segment in log.segments.all()],
            [entry for entry in log.leader_epochs.entries() if entry[1] < log.log_end_offset],
            sorted((entry.producer_id, entry.producer_epoch, entry.last_sequence) for entry in producers),
        )
    return summary
