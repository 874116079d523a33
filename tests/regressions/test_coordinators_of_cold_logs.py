"""A coordinator loads its partition from a segment that no one has opened: a worker opens it, and what happens until
the bytes arrive must not end the load.

Where retention had removed that segment meanwhile, the partition had no coordinator until another leader epoch; where
an index had to be rebuilt on a full disk, it was loading for ever.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import LeaderAndIsr
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.service.group_host import GroupHost, offsets_topic
from tests.unit.logstore.service.test_coordination import commit, leading
from tests.unit.logstore.storage.support import settle

SEGMENT = {"segment.bytes": str(3 << 20)}
TICKS = 20


@pytest.fixture
def disk() -> DiskModel:
    """A disk with a log of groups in several segments."""
    host = leading(configs=SEGMENT)
    for partition in range(110):
        for each in range(8):
            host.commit(partition, group_id="g" * 5000 + f"{partition}-{each}")
        host.settle()
    tick(host, 4)
    return host.disk


def tick(host: GroupHost, times: int = TICKS) -> None:
    for _ in range(times):
        host.now_ms += 10_000
        host.core.tick(host.now_ms)
        host.settle()


def loading(disk: DiskModel, *, lacks_index: bool = False) -> tuple[GroupHost, Partition]:
    """A logstore that leads after a restart; the first read of its cold log is held. `lacks_index`: of the segment."""
    host = GroupHost(disk)
    tick(host, 3)
    if lacks_index:
        (partition,) = host.core.partitions
        settle(disk, partition.log, 10**9)
        disk.remove(partition.log.segments.first.offset_index_path)
    disk.close_files()
    host.holds_effects = True
    host.core.on_control(7, host.command(LeaderAndIsr(False, [offsets_topic(1, configs=SEGMENT)])))
    for _ in range(10):
        host.turn()
    assert [type(each) for each in host.held] == [ReadBatchesEffect]
    (partition,) = host.core.partitions
    return host, partition


def test_a_segment_that_is_deleted_while_it_is_loaded_is_passed_over(disk: DiskModel) -> None:
    host, partition = loading(disk)
    partition.log.retire_segments(1)
    host.holds_effects = False
    assert [each for output in host.settle() for each in output.coordination_problems] == []
    tick(host)
    assert commit(host, 1) == ErrorCode.NONE


def test_a_load_that_a_full_disk_ends_begins_again_when_there_is_room(disk: DiskModel) -> None:
    host, partition = loading(disk, lacks_index=True)
    disk.capacity_bytes = disk.used_bytes() - 1
    host.holds_effects = False
    host.settle()
    assert partition.log.no_room is not None
    disk.capacity_bytes = 1 << 60
    tick(host)
    assert partition.log.no_room is None
    assert commit(host, 1) == ErrorCode.NONE
