"""A crash at every single disk operation of a pass and of the swaps that follow from it, by kill and by power cut: the
log is whole afterwards, the latest record of every key is in it, and a pass over what is left ends as it should.
"""

from __future__ import annotations

import copy
from random import Random

import pytest

from barnabas.wire.record_batch import Compression, Record, build_batch
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from tests.sim.disk_model import DiskModel, MachineStopped
from tests.unit.logstore.compaction.support import (
    LogWriter,
    batches_of,
    clean,
    compacted_topic,
    compress,
    latest,
    records_of,
)
from tests.unit.logstore.storage.support import DIRECTORY, WALL_MS, close, read_all

CONFIG = compacted_topic(segment_bytes=4_000, index_interval_bytes=300, delete_retention_ms=1_000)
OPERATIONS_MAX = 1_000


class Crashing:
    """A durable log with several groups to be made of it, two producers and tombstones."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.disk = DiskModel(chance=Random(seed))
        self.disk.make_directory("/data")
        self.disk.flush_directory("/")
        writer = LogWriter(self.disk, segment_bytes=1_500)
        sequences = {1: 0, 2: 0}
        for _ in range(40):
            records = [
                Record(b"%d" % random.randrange(9), None if random.random() < 0.2 else random.randbytes(50), WALL_MS)
                for _ in range(random.randint(1, 6))
            ]
            producer_id = random.choice((1, 2))
            batch = build_batch(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=sequences[producer_id]
            )
            sequences[producer_id] += len(records)
            writer.add(compress(batch, random.choice((Compression.NONE, Compression.LZ4))))
        writer.roll()
        writer.records(Record(b"active", b"", WALL_MS))
        log = writer.open(CONFIG)
        # One pass is made already: tombstones have their horizon, and some segments are merged.
        clean(self.disk, log)
        for number in range(9, 12):
            writer.next_offset = log.log_end_offset
            writer.roll()
            writer.records(*[Record(b"%d" % (number * key % 11), b"new", WALL_MS) for key in range(9)])
        log = writer.open(CONFIG)
        close(self.disk, log)
        self.log_end_offset = log.log_end_offset
        self.records = records_of(self.disk, log)
        self.producers = producers_of(log)

    def crash(self, operations: int, mode: str, random: Random) -> bool:
        """Whether the pass came to an end before so many operations were done."""
        disk = copy.deepcopy(self.disk)
        disk.chance = random
        log = opened(disk, self.log_end_offset)
        disk.interrupt_after = operations
        try:
            clean(disk, log, WALL_MS + 2_000)
        except MachineStopped:
            pass
        else:
            return True
        if mode == "power":
            disk.lose_power(random)
        is_swap_unfinished = any(entry.name.endswith(".log.swap") for entry in disk.list(DIRECTORY))
        for again in range(25 if is_swap_unfinished else 1):
            self.crash_in_start(copy.deepcopy(disk), again, mode, random)
        return False

    def crash_in_start(self, disk: DiskModel, operations: int, mode: str, random: Random) -> None:
        """Once more, while the start after the crash finishes what it finds."""
        disk.interrupt_after = operations
        try:
            opened(disk, random.choice((0, self.log_end_offset)))
        except MachineStopped:
            if mode == "power":
                disk.lose_power(random)
        disk.interrupt_after = None
        log = opened(disk, random.choice((0, self.log_end_offset // 2, self.log_end_offset)))
        self.check(disk, log)
        log.state.first_dirty_offset = 0
        clean(disk, log, WALL_MS + 3_000)
        self.check(disk, log)
        keys = [record.key for record in records_of(disk, log) if record.offset < log.segments.active.base_offset]
        assert len(keys) == len(set(keys))

    def check(self, disk: DiskModel, log: PartitionLog) -> None:
        names = [entry.name for entry in disk.list(DIRECTORY)]
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        assert log.log_end_offset == self.log_end_offset
        records = records_of(disk, log)
        assert [record for record in self.records if record in records] == records
        before, after = latest(self.records), latest(records)
        assert {key: record for key, record in before.items() if record.value is not None} == {
            key: record for key, record in after.items() if record.value is not None
        }
        assert producers_of(log) == self.producers
        assert read_all(disk, log) == [(header.base_offset, header.last_offset) for header, _ in batches_of(disk, log)]
        ends = {header.next_offset for header, _ in batches_of(disk, log)}
        assert {segment.base_offset for segment in log.segments.all()[1:]} <= ends, "a gap between segments"


def opened(disk: DiskModel, recovery_point: int) -> PartitionLog:
    log = open_log(disk, DIRECTORY, ("orders", 0), CONFIG, recovery_point=recovery_point, shut_down_cleanly=False).log
    close(disk, log)
    return log


def producers_of(log: PartitionLog) -> dict[int, tuple[int, ...]]:
    return {entry.producer_id: (entry.producer_epoch, *entry.batches[-1][:3]) for entry in log.producers.entries()}


@pytest.mark.parametrize("mode", ["kill", "power"])
@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_any_operation_leaves_a_whole_log(seed: int, mode: str) -> None:
    crashing = Crashing(seed)
    random = Random(seed)
    for operations in range(OPERATIONS_MAX):
        if crashing.crash(operations, mode, random):
            assert operations > 30, "a pass of several groups has more operations"
            return
    raise AssertionError("a pass that never ends")
