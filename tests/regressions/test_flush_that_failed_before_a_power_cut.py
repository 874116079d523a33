"""A flush fails, the process starts again in the same boot, and later the machine loses power.

Seeds 593 and 641 with exceptions: the kernel had marked the pages clean, and still had them. So the start found every
record, and no later flush wrote any of them: the power cut left a hole below the recovery point.
"""

from __future__ import annotations

from random import Random

import pytest

from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.regressions.test_losses_that_a_start_meets import LOG, TOPIC_PARTITION, a_trusted_log_of_two_batches, started
from tests.sim.disk_model import DiskModel, Fault


def flushed(disk: DiskModel, log: PartitionLog) -> None:
    flush = log.begin_closing_flush()
    assert flush is not None
    execute(disk, flush)
    log.on_flushed(flush)


@pytest.mark.parametrize("starts", [1, 2])
def test_what_the_next_start_has_found_is_on_the_disk_once_it_has_flushed_it(starts: int) -> None:
    """Also if the first start dies before it has flushed anything."""
    disk = DiskModel(chance=None)
    directory = a_trusted_log_of_two_batches(disk)
    content = disk.peek(LOG)
    log = directory.logs[TOPIC_PARTITION]
    flush = log.begin_closing_flush()
    assert flush is not None
    disk.faults = [Fault("flush", ".log"), Fault("flush_volume", "")]
    with pytest.raises(DiskError):
        execute(disk, flush)
    directory.go_offline(DiskError(DiskErrorKind.IO, "flush", LOG))
    disk.faults = []
    for _ in range(starts):
        again = started(disk)
    assert again.boot.may_lack_records
    execute(disk, again.boot.trust())
    flushed(disk, again.logs[TOPIC_PARTITION])
    disk.lose_power(Random(1))
    assert disk.peek(LOG) == content
    assert started(disk).logs[TOPIC_PARTITION].log_end_offset == 2


def test_a_start_after_a_kill_writes_nothing_again() -> None:
    disk = DiskModel()
    a_trusted_log_of_two_batches(disk)
    disk.faults = [Fault("write_at", LOG)]
    assert started(disk).logs[TOPIC_PARTITION].log_end_offset == 2
