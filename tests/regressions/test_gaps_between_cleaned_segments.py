"""A log that Kafka has compacted may have gaps between its segments, and is not cut there.

Barnabas's cleaner keeps at least the header of a segment's last batch, so that segments join. Kafka's does not: it
removes the last batches of a segment as any others. Recovery took such a gap for a segment whose end was lost, and
dropped everything after it: in a directory that came from Kafka, where all is read once, and where
`recovery-point-offset-checkpoint` was lost and the process died.

Below the cleaner's checkpoint every segment was written by a cleaner, and flushed before it took its place. So it can't
have lost its end, and a gap there is no damage. Anywhere else it is.
"""

from __future__ import annotations

import copy
from random import Random

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import Record, build_batch, iterate_headers
from barnabas_logstore.core.storage.directories.directory_inspection import InspectedDirectory, inspect_directory
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from tests.sim.disk_model import DiskModel, MachineStopped
from tests.unit.logstore.storage.support import flush_all

TOPIC_PARTITION = ("table", 0)
PATH = "/data/table-0"
BATCH = build_batch([Record(b"a key", b"a value", 1)])
FOUR_A_SEGMENT = TopicConfig(segment_bytes=4 * len(BATCH))
END_OFFSET = 14
GAPS = [2, 3, 6, 7]
"""The last batches of the first two segments; two more follow, and the active one."""


def started(disk: DiskModel) -> LogDirectory:
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
    directory.load(lambda topic: FOUR_A_SEGMENT, 0)
    return directory


def compacted(removed: list[int], first_dirty_offset: int) -> DiskModel:
    """A log that was flushed, of a process that was killed and whose recovery points are lost; nothing is at `removed`,
    and the cleaner's checkpoint has this offset.
    """
    disk = DiskModel()
    directory = started(disk)
    execute(disk, directory.boot.trust())
    log = directory.create(TOPIC_PARTITION, bytes(15) + b"1", FOUR_A_SEGMENT)
    assert isinstance(log, PartitionLog)
    for epoch in [0] * 5 + [3] * (END_OFFSET - 5):
        assert isinstance(log.append(memoryview(bytearray(BATCH)), epoch, 1, None), AppendOutcome)
        write = log.begin_write()
        assert write is not None
        execute(disk, write)
        log.on_written(write)
    flush_all(disk, directory)
    for base in range(0, END_OFFSET, 4):
        path = f"{PATH}/{base:020d}"
        content = disk.read_file(f"{path}.log")
        kept = [
            content[at : at + header.size_bytes]
            for at, header in iterate_headers(content)
            if header.base_offset not in removed
        ]
        disk.replace_file(f"{path}.log", b"".join(kept))
        for suffix in (".index", ".timeindex"):
            disk.lose_file(path + suffix)
    if first_dirty_offset:
        execute(disk, cleaned_upto(directory, first_dirty_offset))
    return disk


def cleaned_upto(directory: LogDirectory, offset: int) -> object:
    directory.logs[TOPIC_PARTITION].compacted_upto(offset)
    return directory.checkpoint_cleaner_offsets()


def offsets_of(disk: DiskModel) -> list[int]:
    names = sorted(entry.name for entry in disk.list(PATH) if entry.name.endswith(".log"))
    return [header.base_offset for name in names for _, header in iterate_headers(disk.read_file(f"{PATH}/{name}"))]


def found_by_reading(disk: DiskModel) -> int:
    found = inspect_directory(disk, "/data")
    assert isinstance(found, InspectedDirectory)
    return found.found.partitions[0].log_end_offset


@pytest.mark.parametrize("removed", [GAPS, [3], [4, 5, 6, 7], [0, 1, 2, 3, 7], [4, 6, 7, 9, 11]])
def test_nothing_is_cut_where_the_cleaner_has_been(removed: list[int]) -> None:
    disk = compacted(removed, first_dirty_offset=12)
    assert found_by_reading(disk) == END_OFFSET
    directory = started(disk)
    log = directory.logs[TOPIC_PARTITION]
    assert log.log_end_offset == END_OFFSET
    assert offsets_of(disk) == [offset for offset in range(END_OFFSET) if offset not in removed]
    assert log.leader_epochs.latest == 3
    assert not directory.boot.may_lack_records


def test_the_end_of_a_log_may_be_where_compaction_has_left_nothing() -> None:
    """The active segment is empty: the offsets before it are not given out again."""
    disk = compacted([11, 12, 13], first_dirty_offset=12)
    assert found_by_reading(disk) == 12
    assert started(disk).logs[TOPIC_PARTITION].log_end_offset == 12


@pytest.mark.parametrize(("first_dirty_offset", "end_offset"), [(0, 2), (3, 2), (4, 6), (7, 6)])
def test_a_gap_that_no_cleaner_can_have_left_is_damage(first_dirty_offset: int, end_offset: int) -> None:
    """Kafka's rule would take a segment whose end a power cut has lost for a compacted one."""
    disk = compacted(GAPS, first_dirty_offset)
    assert found_by_reading(disk) == end_offset
    directory = started(disk)
    assert directory.logs[TOPIC_PARTITION].log_end_offset == end_offset
    assert directory.boot.may_lack_records


@pytest.mark.parametrize("loses_power", [False, True])
def test_what_follows_damage_is_gone_before_the_damage_is(loses_power: bool) -> None:
    """A start that was broken off had cut the damaged segment, and removed the next one: a gap for the second start."""
    sound = compacted(GAPS, first_dirty_offset=12)
    sound.flip_bit(f"{PATH}/{4:020d}.log", len(BATCH) + 30, 0)
    for seed in range(8 if loses_power else 1):
        for operations in range(1_000):
            disk = copy.deepcopy(sound)
            disk.interrupt_after = operations
            try:
                started(disk)
            except MachineStopped:
                if loses_power:
                    disk.lose_power(Random(seed))
            else:
                break
            assert started(disk).logs[TOPIC_PARTITION].log_end_offset == 5, operations
        assert operations > 10
