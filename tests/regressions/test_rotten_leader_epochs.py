"""A leader epoch that rots is damage: the log ends before it, and its logstore reports that records may be missing.

Found by the grid of faults. All logstores were killed, and while they were down a bit flipped in one log: in the leader
epoch of a batch, which no checksum covers. Recovery took it at its word. The log was of epoch 16 from then on, the
cluster in epoch 1; the logstore refused every LeaderAndIsr for that partition as older than what it knew, and its
replica was out of sync for ever. Where the epoch had become a smaller one the log was believed, too, and its followers
refused that batch, one after the other.

Epochs never go back along a log. So a batch says whether the one before it can be right, and the begin of a segment
whether the last batch of the segment before can. After a clean stop the checkpoint knows how the epochs end; where its
latest is smaller than that of the last batch alone, either may be wrong, and no record is removed. Offsets are outside
the checksum too, and are checked in the same way.
"""

from __future__ import annotations

import copy

import pytest

from barnabas.cluster.messages import PartitionMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskFile
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.replica.partition import LeadershipChange, Partition
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.recovery.epoch_evidence import EPOCHS_CHECKED_MAX
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import flush_all

TOPIC_PARTITION = ("orders", 0)
TOPIC_ID = bytes(15) + b"1"
PATH = "/data/orders-0"
CHECKPOINT = f"{PATH}/leader-epoch-checkpoint"
BATCH = build_batch([Record(None, b"a value", 1)])
FOUR_A_SEGMENT = TopicConfig(segment_bytes=4 * len(BATCH))

BASE_OFFSET_AT, LEADER_EPOCH_AT = 7, 15
"""The last bytes of both in a batch."""


def started(disk: DiskModel, config: TopicConfig = FOUR_A_SEGMENT) -> LogDirectory:
    directory = LogDirectory.open(
        disk,
        "/data",
        cluster_id="c",
        node_id=1,
        kernel_boot_id="boot-1",
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )
    assert isinstance(directory, LogDirectory)
    directory.load(lambda topic: config, 0)
    return directory


def written(
    disk: DiskModel, epochs: list[int], config: TopicConfig = FOUR_A_SEGMENT, batch: bytes | bytearray = BATCH
) -> LogDirectory:
    """One batch for each, and nothing flushed."""
    directory = started(disk)
    execute(disk, directory.boot.trust())
    log = directory.create(TOPIC_PARTITION, TOPIC_ID, config)
    assert isinstance(log, PartitionLog)
    for epoch in epochs:
        assert isinstance(log.append(memoryview(bytearray(batch)), epoch, 1, None), AppendOutcome)
        write = log.begin_write()
        assert write is not None
        execute(disk, write)
        log.on_written(write)
    return directory


def rot(disk: DiskModel, offset: int, byte: int, bit: int) -> None:
    """In the batch at this offset, four to a segment."""
    base = offset - offset % 4
    disk.flip_bit(f"{PATH}/{base:020d}.log", (offset - base) * len(BATCH) + byte, bit)


def log_of(directory: LogDirectory) -> PartitionLog:
    return directory.logs[TOPIC_PARTITION]


def test_the_log_ends_before_an_epoch_that_has_become_a_later_one() -> None:
    disk = DiskModel()
    written(disk, [0, 0, 1, 1])
    rot(disk, 2, LEADER_EPOCH_AT, 4)
    directory = started(disk)
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.entries()) == (2, [(0, 0)])
    assert directory.boot.may_lack_records
    assert started(disk).boot.may_lack_records, "until the controller has heard it"


def test_the_cluster_can_tell_it_whom_to_follow() -> None:
    disk = DiskModel()
    written(disk, [0, 0, 1, 1])
    rot(disk, 2, LEADER_EPOCH_AT, 4)
    replica = Partition(1, "orders", TOPIC_ID, 0, log_of(started(disk)))
    state = PartitionMetadata(
        partition=0, leader=2, leader_epoch=2, partition_epoch=5, replicas=(1, 2), in_sync_replicas=(2,)
    )
    assert replica.apply(state, 30_000, 0) is LeadershipChange.NEW_LEADER


def test_the_log_ends_before_an_epoch_that_has_become_an_earlier_one() -> None:
    """And not where that epoch ended: of three batches that do not fit together two say the same."""
    disk = DiskModel()
    written(disk, [0, 3, 3, 3])
    rot(disk, 3, LEADER_EPOCH_AT, 1)
    directory = started(disk)
    assert log_of(directory).log_end_offset == 3
    assert directory.boot.may_lack_records


def test_the_next_segment_tells_of_the_last_batch_before_it() -> None:
    disk = DiskModel()
    written(disk, [0, 0, 0, 0, 1, 1])
    rot(disk, 3, LEADER_EPOCH_AT, 4)
    directory = started(disk)
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.latest) == (3, 0)
    assert directory.boot.may_lack_records
    assert not disk.exists(f"{PATH}/{4:020d}.log")


def test_a_segment_that_begins_with_a_rotten_epoch_is_empty() -> None:
    disk = DiskModel()
    written(disk, [0, 3, 3, 3, 3, 3])
    rot(disk, 4, LEADER_EPOCH_AT, 1)
    directory = started(disk)
    assert log_of(directory).log_end_offset == 4
    assert directory.boot.may_lack_records


def stopped_cleanly(disk: DiskModel, directory: LogDirectory) -> None:
    flush_all(disk, directory)
    assert directory.shut_down({}, broker_epoch=7)


def test_after_a_clean_stop_the_last_batch_is_kept_in_the_epoch_of_the_checkpoint() -> None:
    disk = DiskModel()
    stopped_cleanly(disk, written(disk, [0, 0, 1, 1]))
    rot(disk, 3, LEADER_EPOCH_AT, 4)
    directory = started(disk)
    assert directory.was_shut_down_cleanly
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.entries()) == (4, [(0, 0), (1, 2)])
    assert directory.boot.may_lack_records


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("epochs", [[0] * 13 + [3], [0] * 9 + [4] * 4 + [9], [2] * 6 + [3] + [5] * 6, [0] * 12 + [3]])
def test_no_bit_of_the_checkpoint_costs_a_record(epochs: list[int], cleanly: bool) -> None:
    """3 had become 2: the last batch, alone in its epoch, was taken for rotten, and was cut."""
    sound = DiskModel()
    stop(sound, written(sound, epochs), cleanly=cleanly)
    content = sound.read_file(CHECKPOINT)
    for position in range(len(content)):
        for bit in range(8):
            disk = copy.deepcopy(sound)
            disk.flip_bit(CHECKPOINT, position, bit)
            assert log_of(started(disk)).log_end_offset == len(epochs), (position, bit)


def test_a_last_batch_of_a_corrupt_checksum_is_cut() -> None:
    disk = DiskModel()
    stopped_cleanly(disk, written(disk, [0, 0, 1, 1]))
    rot(disk, 3, LEADER_EPOCH_AT, 4)
    rot(disk, 3, len(BATCH) - 1, 0)
    directory = started(disk)
    assert log_of(directory).log_end_offset == 3
    assert directory.boot.may_lack_records


@pytest.mark.parametrize("is_header_wrong", [True, False])
def test_a_batch_in_doubt_does_not_end_the_log_at_a_later_crash(is_header_wrong: bool) -> None:
    """The batches after it may be of a smaller epoch: they begin a segment."""
    disk = DiskModel()
    stopped_cleanly(disk, written(disk, [0, 0, 0, 3]))
    if is_header_wrong:
        rot(disk, 3, LEADER_EPOCH_AT, 4)
    else:
        disk.replace_file(CHECKPOINT, disk.read_file(CHECKPOINT).replace(b"3 3", b"2 3"))
    directory = started(disk)
    assert directory.boot.may_lack_records
    execute(disk, directory.boot.trust())
    log = log_of(directory)
    latest = log.leader_epochs.latest
    for _ in range(2):
        assert isinstance(log.append(memoryview(bytearray(BATCH)), 5, 1, None), AppendOutcome)
        write = log.begin_write()
        assert write is not None
        execute(disk, write)
        log.on_written(write)
    again = log_of(started(disk))
    assert (again.log_end_offset, again.leader_epochs.entries()) == (6, [(0, 0), (latest, 3), (5, 4)])


@pytest.mark.parametrize("content", [b"0\n2\n0 0\n5 2\n", b"0\n2\n0 0\n1 3\n", b"0\n1\n0 0\n"])
def test_a_checkpoint_that_two_batches_contradict_costs_no_record(content: bytes) -> None:
    disk = DiskModel()
    stopped_cleanly(disk, written(disk, [0, 0, 1, 1]))
    disk.replace_file(CHECKPOINT, content)
    directory = started(disk)
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.entries()) == (4, [(0, 0), (1, 2)])
    assert not directory.boot.may_lack_records


def test_an_epoch_that_the_checkpoint_has_not_heard_of_is_none_the_worse() -> None:
    """It is written with a flush, and a process is killed long before that."""
    disk = DiskModel()
    directory = written(disk, [0, 0])
    flush_all(disk, directory)
    assert disk.read_file(CHECKPOINT) == b"0\n1\n0 0\n"
    log = log_of(directory)
    assert isinstance(log.append(memoryview(bytearray(BATCH)), 7, 1, None), AppendOutcome)
    write = log.begin_write()
    assert write is not None
    execute(disk, write)
    directory = started(disk)
    assert log_of(directory).leader_epochs.entries() == [(0, 0), (7, 2)]
    assert not directory.boot.may_lack_records


@pytest.mark.parametrize("bit", range(8))
def test_the_log_ends_before_an_offset_that_has_become_another(bit: int) -> None:
    """A larger one was believed, and what came after it was dropped: records were served at offsets not theirs."""
    disk = DiskModel()
    written(disk, [0, 0, 0, 0])
    rot(disk, 1, BASE_OFFSET_AT, bit)
    directory = started(disk)
    assert log_of(directory).log_end_offset <= 1
    assert directory.boot.may_lack_records


def test_the_name_of_the_next_segment_tells_of_the_last_offset_before_it() -> None:
    disk = DiskModel()
    written(disk, [0, 0, 0, 0, 0])
    rot(disk, 3, BASE_OFFSET_AT, 2)
    directory = started(disk)
    assert log_of(directory).log_end_offset == 3
    assert directory.boot.may_lack_records


RECORDS_PER_BATCH = 7
SEVEN = build_batch([Record(None, b"a value", 1)] * RECORDS_PER_BATCH)
SEVEN_EACH = TopicConfig(segment_bytes=4 * len(SEVEN), index_interval_bytes=1)
EPOCHS = [0, 0, 0, 3, 3, 6, 6, 6, 6, 6, 9, 9, 9]
"""One for each batch of 7 records: epochs begin within segments, and at the begin of none."""
TRUTH = [(0, 0), (3, 21), (6, 35), (9, 70)]
END_OFFSET = RECORDS_PER_BATCH * len(EPOCHS)


def stored(disk: DiskModel, *, log_start_offset: int = 0) -> LogDirectory:
    directory = started(disk, SEVEN_EACH)
    execute(disk, directory.boot.trust())
    log = directory.create(TOPIC_PARTITION, TOPIC_ID, SEVEN_EACH)
    assert isinstance(log, PartitionLog)
    for epoch in EPOCHS:
        assert isinstance(log.append(memoryview(bytearray(SEVEN)), epoch, 1, None), AppendOutcome)
        write = log.begin_write()
        assert write is not None
        execute(disk, write)
        log.on_written(write)
    log.state.move_log_start(log_start_offset)
    return directory


def stop(disk: DiskModel, directory: LogDirectory, *, cleanly: bool) -> None:
    flush_all(disk, directory)
    if cleanly:
        assert directory.shut_down({}, broker_epoch=7)
    else:
        execute(disk, directory.checkpoint_recovery_points())
        execute(disk, directory.checkpoint_log_starts())


def ends(log: PartitionLog) -> list[tuple[int, int]]:
    return [log.leader_epochs.end_offset_of(epoch, log.log_end_offset) for epoch in range(11)]


def expected_ends(log_start_offset: int) -> list[tuple[int, int]]:
    epochs = LeaderEpochs()
    for epoch, start_offset in TRUTH:
        epochs.assign(epoch, start_offset)
    epochs.trim_to(log_start_offset)
    return [epochs.end_offset_of(epoch, END_OFFSET) for epoch in range(11)]


def test_an_epoch_that_seems_to_begin_within_a_batch_of_another() -> None:
    """A leader answered 29, its follower truncated there, and records were lost that had been committed."""
    disk = DiskModel()
    stop(disk, stored(disk), cleanly=False)
    disk.replace_file(CHECKPOINT, disk.read_file(CHECKPOINT).replace(b"6 35", b"6 31"))
    log = log_of(started(disk, SEVEN_EACH))
    assert log.leader_epochs.end_offset_of(3, log.log_end_offset) == (3, 35)
    assert log.log_end_offset == END_OFFSET


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("log_start_offset", [0, 24, 38, 42])
def test_no_bit_of_the_checkpoint_moves_an_epoch(log_start_offset: int, cleanly: bool) -> None:
    """Log starts within an epoch, within a batch, and where an epoch begins."""
    sound = DiskModel()
    stop(sound, stored(sound, log_start_offset=log_start_offset), cleanly=cleanly)
    content = sound.read_file(CHECKPOINT)
    believed = []
    for position in range(len(content)):
        for bit in range(8):
            disk = copy.deepcopy(sound)
            disk.flip_bit(CHECKPOINT, position, bit)
            found = started(disk, SEVEN_EACH)
            log = log_of(found)
            assert (log.log_start_offset, log.log_end_offset) == (log_start_offset, END_OFFSET)
            assert not found.boot.may_lack_records
            if ends(log) != expected_ends(log_start_offset):
                believed.append((disk.read_file(CHECKPOINT), log.leader_epochs.entries()))
    assert not believed


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_bit_of_the_checkpoint_beside_indexes_that_are_missing(cleanly: bool) -> None:
    disk = DiskModel()
    stop(disk, stored(disk), cleanly=cleanly)
    for entry in disk.list(PATH):
        if entry.name.endswith(".index"):
            disk.lose_file(f"{PATH}/{entry.name}")
    disk.replace_file(CHECKPOINT, b"0\n4\n0 0\n3 21\n6 34\n9 70\n")
    assert log_of(started(disk, SEVEN_EACH)).leader_epochs.entries() == TRUTH


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_wrong_checkpoint_is_reported_and_written_again(cleanly: bool) -> None:
    disk = DiskModel()
    directory = stored(disk)
    stop(disk, directory, cleanly=cleanly)
    right = disk.read_file(CHECKPOINT)
    for wrong, is_reported in ((right, False), (right.replace(b"6 35", b"6 31"), True), (b"0\n1\n", True)):
        disk.replace_file(CHECKPOINT, wrong)
        again = started(disk, SEVEN_EACH)
        [found] = again.load(lambda topic: SEVEN_EACH, 0)
        assert found.opened.has_wrong_epochs == is_reported
        stop(disk, again, cleanly=cleanly)
        assert disk.read_file(CHECKPOINT) == right


def test_what_can_be_read_of_a_damaged_checkpoint() -> None:
    for content, legible in (
        (b"0\n4\n0 8\n1 5\n2 6\n5 9\n", [(1, 5), (2, 6), (5, 9)]),
        (b"0\n4\n0 0\n1 5\n2 6\n5 1\n", [(0, 0), (1, 5), (2, 6)]),
        (b"0\n3\n0 2\n3 2\n4 4\n", [(4, 4)]),
        (b"0\n3\n0 0\n3 \xff\n4 4\n", [(0, 0), (4, 4)]),
        (b"", []),
    ):
        assert LeaderEpochs.parse(content) is None
        assert LeaderEpochs.legible_entries(content) == legible


@pytest.mark.parametrize("bit", range(7))
def test_a_batch_that_seems_to_reach_past_what_recovery_reads(bit: int) -> None:
    """Its count of offsets is in the checksum, which a start does not calculate below the recovery point."""
    disk = DiskModel()
    stop(disk, stored(disk), cleanly=False)
    _compact(disk, [10, 11])
    disk.flip_bit(f"{PATH}/{56:020d}.log", len(SEVEN) + 23, bit)
    assert log_of(started(disk, SEVEN_EACH)).leader_epochs.entries() == TRUTH


def _compact(disk: DiskModel, removed: list[int]) -> None:
    """Remove batches of closed segments."""
    for base in range(0, len(EPOCHS), 4):
        path = f"{PATH}/{base * RECORDS_PER_BATCH:020d}"
        batches = disk.read_file(f"{path}.log")
        size = len(SEVEN)
        kept = [batches[at : at + size] for at in range(0, len(batches), size) if base + at // size not in removed]
        if len(kept) < len(batches) // size:
            disk.replace_file(f"{path}.log", b"".join(kept))
            for suffix in (".index", ".timeindex"):
                disk.lose_file(path + suffix)


def test_a_single_batch_that_can_be_of_no_epoch_of_the_checkpoint() -> None:
    """Its header does not stand alone: in the epoch that the file has it could not follow the batch before."""
    disk = DiskModel()
    directory = written(disk, [0, 1, 2])
    directory.logs[TOPIC_PARTITION].state.move_log_start(2)
    stop(disk, directory, cleanly=True)
    assert disk.read_file(CHECKPOINT) == b"0\n1\n2 2\n"
    disk.replace_file(CHECKPOINT, b"0\n1\n0 2\n")
    directory = started(disk)
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.entries()) == (3, [(2, 2)])
    assert not directory.boot.may_lack_records


def test_a_rotten_epoch_at_the_begin_of_one_contradicts_no_checkpoint() -> None:
    """The batch is wrong, and the checkpoint has the place where the epoch begins."""
    disk = DiskModel()
    stop(disk, stored(disk), cleanly=True)
    disk.flip_bit(f"{PATH}/{28:020d}.log", len(SEVEN) + LEADER_EPOCH_AT, 4)
    found = started(disk, SEVEN_EACH)
    assert log_of(found).leader_epochs.entries() == TRUTH
    assert log_of(found).log_end_offset == END_OFFSET


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("removed", [[5], [4, 5], [5, 6, 7, 8, 9], [3, 4], [0, 1, 2]])
def test_an_epoch_may_begin_where_compaction_has_left_nothing(removed: list[int], cleanly: bool) -> None:
    """Batches of closed segments, beginning with whole ones of an epoch."""
    disk = DiskModel()
    stop(disk, stored(disk), cleanly=cleanly)
    _compact(disk, removed)
    right = disk.read_file(CHECKPOINT)
    torn = (right.replace(b"0\n4\n", b"0\n5\n"), right.replace(b"9 70", b"9 6p"), right.replace(b"9 70", b"9 10"))
    for content in (right, b"", right.replace(b"9 70", b"9 71"), *(torn if 5 not in removed else torn[:2])):
        disk.replace_file(CHECKPOINT, content)
        again = copy.deepcopy(disk)
        found = started(again, SEVEN_EACH)
        log = log_of(found)
        assert log.log_end_offset == END_OFFSET
        assert not found.boot.may_lack_records
        if content:
            assert log.leader_epochs.entries() == TRUTH


def test_an_epoch_without_records_after_the_last_batch() -> None:
    disk = DiskModel()
    directory = stored(disk)
    log_of_stored = directory.logs[TOPIC_PARTITION]
    log_of_stored.begin_leader_epoch(12)
    stop(disk, directory, cleanly=True)
    [found] = started(disk, SEVEN_EACH).load(lambda topic: SEVEN_EACH, 0)
    assert found.opened.log.leader_epochs.entries() == TRUTH
    assert not found.opened.has_wrong_epochs


class CountingDisk(DiskModel):
    reads = 0

    def read_at(self, file: DiskFile, position: int, byte_count: int) -> bytes:
        self.reads += 1
        return super().read_at(file, position, byte_count)


def test_only_the_newest_epochs_are_looked_at() -> None:
    """A log may have thousands; each costs an index entry and some headers."""
    reads = []
    for count in (EPOCHS_CHECKED_MAX, 2 * EPOCHS_CHECKED_MAX, 4 * EPOCHS_CHECKED_MAX):
        disk = CountingDisk()
        stop(disk, written(disk, list(range(count))), cleanly=True)
        disk.reads = 0
        assert len(log_of(started(disk)).leader_epochs.entries()) == count
        reads.append(disk.reads)
    assert reads[1] - reads[0] <= 4, "an entry more is checked, since the log start is not among the newest"
    assert reads[2] == reads[1] <= 4 * EPOCHS_CHECKED_MAX
