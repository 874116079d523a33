"""What a truncation cuts off does not come back because the process ends in the midst of it.

The log goes on in a new segment, which gets its name before the old one is truncated. A process that was killed between
the two left the old segment whole, with the next one beginning in the midst of it. The recovery point was that
beginning, so that recovery looked at the new segment only: reads from before it returned the records that had been cut
off, instead of those that the leader has at their offsets.
"""

from __future__ import annotations

import copy
from random import Random

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import iterate_headers
from barnabas_logstore.core.storage.effect_execution import execute
from tests.sim.disk_model import DiskModel, MachineStopped
from tests.unit.logstore.storage.support import append, batch, new_log, read, reopen, settle

OLD, NEW = 1, 2
END_OFFSET = 9
SMALL_SEGMENTS = TopicConfig(segment_bytes=4 * len(batch()), flush_ms=0)


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("offset", [1, 4, 6])
def test_what_is_cut_off_is_not_read_again(offset: int, loses_power: bool) -> None:
    before = DiskModel()
    log = new_log(before, SMALL_SEGMENTS)
    for _ in range(END_OFFSET):
        append(log, batch(), leader_epoch=OLD)
        settle(before, log)
    settle(before, log, now_ms=1)
    before.flush_directory("/")
    before.flush_directory("/data")
    assert log.recovery_point == END_OFFSET
    assert log.begin_truncation(offset)
    recovery_point = log.recovery_point
    effect = log.truncation.begin_cut()
    cuts = 0
    for operations in range(1_000):
        stopped = copy.deepcopy(before)
        stopped.interrupt_after = operations
        try:
            execute(stopped, effect)
        except MachineStopped:
            pass
        else:
            break
        for seed in range(3 if loses_power else 1):
            disk = copy.deepcopy(stopped)
            disk.interrupt_after = None
            if loses_power:
                disk.lose_power(Random(seed))
            log = reopen(disk, SMALL_SEGMENTS, recovery_point=recovery_point).log
            assert offset <= log.log_end_offset <= END_OFFSET
            cuts += log.log_end_offset == offset
            begin = log.log_end_offset
            for _ in range(3):
                append(log, batch(), leader_epoch=NEW)
                settle(disk, log)
            found = []
            while len(found) < log.log_end_offset:
                data = read(disk, log, len(found))
                assert isinstance(data, bytes)
                found += [(header.base_offset, header.partition_leader_epoch) for _, header in iterate_headers(data)]
            epochs = [OLD] * begin + [NEW] * 3
            assert found == list(enumerate(epochs)), (operations, seed)
    assert cuts > 0
