"""A segment that waits for a flush is not cleaned, also when all its records are durable.

Recovery seals the last segment that it takes on trust anew and has it flushed. The cleaner put another one in its place
first, the flush did not find its files, and took the directory offline.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.maintenance.cleanable import cleanable
from barnabas_logstore.core.storage.effect_execution import execute
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import WALL_MS, append, batch, close, new_log, reopen, settle

CONFIG = TopicConfig(segment_bytes=len(batch()), cleanup_policy="compact")


def test_it_is_cleaned_after_its_flush() -> None:
    disk = DiskModel()
    log = new_log(disk, CONFIG)
    for _ in range(3):
        append(log, batch())
        settle(disk, log)
    close(disk, log)

    log = reopen(disk, CONFIG, recovery_point=2).log
    assert log.recovery_point == 2
    assert cleanable(log, log.log_end_offset, WALL_MS).end_offset == 1
    flush = log.begin_due_flush(0)
    assert flush is not None
    assert "/data/orders-0/00000000000000000001.log" in flush.files
    assert cleanable(log, log.log_end_offset, WALL_MS).end_offset == 1
    execute(disk, flush)
    log.on_flushed(flush)
    assert cleanable(log, log.log_end_offset, WALL_MS).end_offset == 2
