"""A snapshot of producers that a failed write has left does not outlive the batches that it tells of.

The write found no room behind the snapshot. Its batches were taken back, others came in their place, and after a crash
the snapshot was believed: it told of a batch that was never acknowledged, and nothing of the one that was.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.effect_execution import execute
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import append, batch, new_log, reopen, settle
from tests.unit.logstore.storage.test_full_disk import no_room, run_full, take_back


def produced(producer_id: int, sequence: int, records_count: int = 1) -> bytes:
    return batch(records_count, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_it_goes_with_them() -> None:
    disk = DiskModel()
    config = TopicConfig(segment_bytes=len(produced(1, 0, 2)), flush_messages=1)
    log = new_log(disk, config)
    append(log, produced(1, 0))
    settle(disk, log)
    append(log, produced(1, 1))
    append(log, produced(1, 2))
    # The second batch is written, and a snapshot that knows of it, as the third has begun a segment; then room is out.
    disk.faults.append(no_room("write_at", ".timeindex"))
    run_full(disk, log)
    take_back(disk, log)
    assert log.disk_full.accept_appends()
    assert log.log_end_offset == 1

    append(log, produced(2, 0, 2))
    settle(disk, log)
    append(log, produced(3, 0))
    write = log.begin_write()
    assert write is not None
    write.flush = None
    execute(disk, write)
    log = reopen(disk, config, recovery_point=log.recovery_point).log
    assert {entry.producer_id: entry.last_sequence for entry in log.producers.entries()} == {1: 0, 2: 1, 3: 0}
