"""The last time index entry of a segment that was closed after the last flush is not durable, and may be torn.

The recovery point stands at the segment's end, so recovery does not read it. Zeros where its only entry should be
passed for an entry, and a torn time for the segment's largest.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, WALL_MS, append, batch, lookup, new_log, reopen, settle

CONFIG = TopicConfig(segment_bytes=300, flush_messages=1)
TIME_INDEX = f"{DIRECTORY}/{0:020d}.timeindex"


def flushed_then_closed(disk: DiskModel) -> PartitionLog:
    log = new_log(disk, CONFIG)
    append(log, batch(timestamp_ms=WALL_MS + 7))
    settle(disk, log)
    append(log, batch(value_bytes=200, timestamp_ms=WALL_MS))
    write = log.begin_write()
    assert write is not None
    write.flush = None
    execute(disk, write)
    assert len(log.segments) == 2
    return log


@pytest.mark.parametrize("torn", [bytes(12), (WALL_MS >> 16 << 16).to_bytes(8, "big") + bytes(4)])
def test_a_torn_last_entry_is_rewritten(torn: bytes) -> None:
    disk = DiskModel()
    recovery_point = flushed_then_closed(disk).recovery_point
    disk.write_at(disk.open(TIME_INDEX), 0, [torn])
    log = reopen(disk, CONFIG, recovery_point=recovery_point).log
    index = log.segments.first.time_index
    assert [index.entry(position) for position in range(len(index))] == [(WALL_MS + 7, 0)]
    assert lookup(disk, log, WALL_MS + 7).offset == 0
