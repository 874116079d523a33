"""One flipped bit in a header moved leader epochs that the checkpoint had right.

A batch's base offset and epoch have no checksum. The base offset of the batch at 35 had become 3: the epoch before it
seemed to end at 3, a right `leader-epoch-checkpoint` was replaced, and followers of that leader cut committed records.
"""

from __future__ import annotations

import copy

import pytest

from barnabas.cluster.messages import PartitionMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.replica.partition import LeadershipChange, Partition
from barnabas_logstore.core.storage.effect_execution import execute
from tests.regressions.test_rotten_leader_epochs import (
    BASE_OFFSET_AT,
    END_OFFSET,
    EPOCHS,
    LEADER_EPOCH_AT,
    PATH,
    RECORDS_PER_BATCH,
    SEVEN,
    SEVEN_EACH,
    TOPIC_ID,
    TRUTH,
    CountingDisk,
    log_of,
    rot,
    started,
    stop,
    stored,
    written,
)
from tests.sim.disk_model import DiskModel

LEFT_TO_CHANCE = {(12, byte, bit) for byte in range(12, 16) for bit in range(8)} - {
    (12, 12, 7),
    (12, 15, 0),
    (12, 15, 3),
}
"""(batch, byte, bit): the epoch of a killed log's last batch, if it becomes a larger one. No checkpoint denies it."""


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("number", range(len(EPOCHS)))
def test_no_bit_of_a_header_moves_an_epoch(number: int, cleanly: bool) -> None:
    """The base offset of the batch at 35 had become 3: epoch 0 ended there then, and the right file was replaced."""
    sound = DiskModel()
    stop(sound, stored(sound), cleanly=cleanly)
    first = number - number % 4
    wrong = []
    for byte in (*range(8), *range(12, 16)):
        for bit in range(8):
            disk = copy.deepcopy(sound)
            disk.flip_bit(f"{PATH}/{first * RECORDS_PER_BATCH:020d}.log", (number - first) * len(SEVEN) + byte, bit)
            found = started(disk, SEVEN_EACH)
            log = log_of(found)
            # A last batch with another offset is the end of another log, or is cut off.
            known = [entry for entry in TRUTH if entry[1] < log.log_end_offset]
            assert log.log_end_offset == END_OFFSET or number == len(EPOCHS) - 1
            is_right = log.leader_epochs.entries() == known and (known == TRUTH or found.boot.may_lack_records)
            if not is_right and (cleanly or (number, byte, bit) not in LEFT_TO_CHANCE):
                wrong.append((byte, bit, log.leader_epochs.entries()))
    assert not wrong


@pytest.mark.parametrize("records", [1, RECORDS_PER_BATCH])
@pytest.mark.parametrize("index_interval_bytes", [1, 4096])
@pytest.mark.parametrize("epochs", [[0, 1, 2, 5, 6, 9], [0, 0, 4, 5, 5, 5, 7], [2, 3, 3, 3, 3, 3, 3, 8]])
def test_no_bit_of_a_header_moves_an_epoch_of_one_batch(
    epochs: list[int], index_interval_bytes: int, records: int
) -> None:
    """In closed segments. The batches at the end of the last one are read again if they contradict the checkpoint."""
    batch = build_batch([Record(None, b"a value", 1)] * records)
    config = TopicConfig(segment_bytes=3 * len(batch), index_interval_bytes=index_interval_bytes)
    sound = DiskModel()
    stop(sound, written(sound, epochs, config, batch), cleanly=True)
    truth = log_of(started(copy.deepcopy(sound), config)).leader_epochs.entries()
    assert [epoch for epoch, _ in truth] == sorted(set(epochs))
    for number in range((len(epochs) - 1) // 3 * 3):
        first = number - number % 3
        for byte in (BASE_OFFSET_AT, LEADER_EPOCH_AT - 3, LEADER_EPOCH_AT):
            for bit in range(8):
                disk = copy.deepcopy(sound)
                disk.flip_bit(f"{PATH}/{first * records:020d}.log", (number - first) * len(batch) + byte, bit)
                found = started(disk, config)
                log = log_of(found)
                assert log.leader_epochs.entries() == truth, (number, byte, bit)
                assert not found.boot.may_lack_records


def test_one_header_makes_no_latest_epoch_after_a_clean_stop() -> None:
    """Its replica refused each leader (STALE), since none has epochs that late: the file's epoch stays."""
    disk = DiskModel()
    stop(disk, written(disk, [0, 0, 0, 0, 0, 1]), cleanly=True)
    rot(disk, 5, LEADER_EPOCH_AT, 4)
    directory = started(disk)
    log = log_of(directory)
    assert (log.log_end_offset, log.leader_epochs.entries()) == (6, [(0, 0), (1, 5)])
    assert directory.boot.may_lack_records
    replica = Partition(1, "orders", TOPIC_ID, 0, log)
    state = PartitionMetadata(
        partition=0, leader=2, leader_epoch=2, partition_epoch=5, replicas=(1, 2), in_sync_replicas=(2,)
    )
    assert replica.apply(state, 30_000, 0) is LeadershipChange.NEW_LEADER


@pytest.mark.parametrize("byte", [BASE_OFFSET_AT, LEADER_EPOCH_AT])
def test_a_rotten_header_costs_no_scan_of_the_log(byte: int) -> None:
    """Every start read the headers of all batches: the header stays as it is, and nothing is remembered of it."""
    batch = build_batch([Record(None, b"v" * 5000, 1)])
    config = TopicConfig(segment_bytes=64 * len(batch))
    reads = []
    for count in (128, 512):
        disk = CountingDisk()
        stop(disk, written(disk, [0] * 50 + [3] * (count - 50), config, batch), cleanly=True)
        disk.flip_bit(f"{PATH}/{0:020d}.log", 50 * len(batch) + byte, 6)
        for _ in range(2):
            disk.reads = 0
            directory = started(disk, config)
            reads.append(disk.reads)
            assert log_of(directory).leader_epochs.entries() == [(0, 0), (3, 50)]
            stop(disk, directory, cleanly=True)
    assert len(set(reads)) == 1
    assert reads[0] < 50, "fewer than the batches of one segment"


def test_a_cut_does_not_look_at_epochs_that_it_has_just_written() -> None:
    """Until the log is open again, the event loop of its logstore waits."""
    reads = []
    for epochs in ([0] * 20, list(range(20))):
        disk = CountingDisk()
        log = log_of(written(disk, epochs))
        assert log.begin_truncation(18, truncate_fully=False)
        cut = log.truncation.begin_cut()
        disk.reads = 0
        execute(disk, cut)
        reads.append(disk.reads)
    assert reads[0] == reads[1]
