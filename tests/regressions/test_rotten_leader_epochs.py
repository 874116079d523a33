"""A leader epoch that rots is damage: the log ends before it, and its logstore reports that records may be missing.

Found by the grid of faults. All logstores were killed, and while they were down a bit flipped in one log: in the leader
epoch of a batch, which no checksum covers. Recovery took it at its word. The log was of epoch 16 from then on, the
cluster in epoch 1; the logstore refused every LeaderAndIsr for that partition as older than what it knew, and its
replica was out of sync for ever. Where the epoch had become a smaller one the log was believed, too, and its followers
refused that batch, one after the other.

Epochs never go back along a log. So a batch says whether the one before it can be right, and the begin of a segment
whether the last batch of the segment before can. After a clean stop the checkpoint knows how the epochs end. Offsets
are outside the checksum too, and are checked in the same way.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import PartitionMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.replica.partition import LeadershipChange, Partition
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
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


def written(disk: DiskModel, epochs: list[int], config: TopicConfig = FOUR_A_SEGMENT) -> LogDirectory:
    """One batch of one record for each, and nothing flushed."""
    directory = started(disk)
    execute(disk, directory.trust())
    log = directory.create(TOPIC_PARTITION, TOPIC_ID, config)
    assert isinstance(log, PartitionLog)
    for epoch in epochs:
        assert isinstance(log.append(memoryview(bytearray(BATCH)), epoch, 1, None), AppendOutcome)
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
    assert directory.may_lack_records
    assert started(disk).may_lack_records, "until the controller has heard it"


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
    assert directory.may_lack_records


def test_the_next_segment_tells_of_the_last_batch_before_it() -> None:
    disk = DiskModel()
    written(disk, [0, 0, 0, 0, 1, 1])
    rot(disk, 3, LEADER_EPOCH_AT, 4)
    directory = started(disk)
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.latest) == (3, 0)
    assert directory.may_lack_records
    assert not disk.exists(f"{PATH}/{4:020d}.log")


def test_a_segment_that_begins_with_a_rotten_epoch_is_empty() -> None:
    disk = DiskModel()
    written(disk, [0, 3, 3, 3, 3, 3])
    rot(disk, 4, LEADER_EPOCH_AT, 1)
    directory = started(disk)
    assert log_of(directory).log_end_offset == 4
    assert directory.may_lack_records


def stopped_cleanly(disk: DiskModel, directory: LogDirectory) -> None:
    flush_all(disk, directory)
    assert directory.shut_down({}, broker_epoch=7)


def test_after_a_clean_stop_the_checkpoint_tells_of_the_last_batch() -> None:
    disk = DiskModel()
    stopped_cleanly(disk, written(disk, [0, 0, 1, 1]))
    rot(disk, 3, LEADER_EPOCH_AT, 4)
    directory = started(disk)
    assert directory.was_shut_down_cleanly
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.latest) == (3, 1)
    assert directory.may_lack_records


@pytest.mark.parametrize("content", [b"0\n2\n0 0\n5 2\n", b"0\n2\n0 0\n1 3\n", b"0\n1\n0 0\n"])
def test_a_checkpoint_that_two_batches_contradict_costs_no_record(content: bytes) -> None:
    disk = DiskModel()
    stopped_cleanly(disk, written(disk, [0, 0, 1, 1]))
    disk.replace_file(CHECKPOINT, content)
    directory = started(disk)
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.entries()) == (4, [(0, 0), (1, 2)])
    assert not directory.may_lack_records


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
    assert not directory.may_lack_records


@pytest.mark.parametrize("bit", range(8))
def test_the_log_ends_before_an_offset_that_has_become_another(bit: int) -> None:
    """A larger one was believed, and what came after it was dropped: records were served at offsets not theirs."""
    disk = DiskModel()
    written(disk, [0, 0, 0, 0])
    rot(disk, 1, BASE_OFFSET_AT, bit)
    directory = started(disk)
    assert log_of(directory).log_end_offset <= 1
    assert directory.may_lack_records


def test_the_name_of_the_next_segment_tells_of_the_last_offset_before_it() -> None:
    disk = DiskModel()
    written(disk, [0, 0, 0, 0, 0])
    rot(disk, 3, BASE_OFFSET_AT, 2)
    directory = started(disk)
    assert log_of(directory).log_end_offset == 3
    assert directory.may_lack_records
