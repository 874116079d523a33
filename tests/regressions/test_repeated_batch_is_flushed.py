"""With flush.messages a batch that is repeated is acknowledged when it is on the disk, also when the process that wrote
it was killed before it flushed.

The new process found the batch in the log, told the producer at once that it is there, and lost it with the next power
cut.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import append, batch, new_log, reopen, settle

CONFIG = TopicConfig(flush_messages=1)
FIRST = batch(producer_id=1, producer_epoch=0, base_sequence=0)
SECOND = batch(producer_id=1, producer_epoch=0, base_sequence=1)


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


@pytest.fixture
def log(disk: DiskModel) -> PartitionLog:
    """As found by a process after one that was killed between its write and its flush."""
    killed = new_log(disk, CONFIG)
    append(killed, FIRST)
    write = killed.begin_write()
    assert write is not None
    write.flush = None
    execute(disk, write)
    return reopen(disk, CONFIG).log


def test_it_is_acknowledged_once_it_is_flushed(disk: DiskModel, log: PartitionLog) -> None:
    outcome = append(log, FIRST, token="repeated")
    assert (outcome.base_offset, outcome.is_duplicate, outcome.is_written) == (0, True, False)
    assert settle(disk, log) == ["repeated"]
    assert log.recovery_point == 1
    assert append(log, FIRST).is_written


def test_along_with_a_later_write(disk: DiskModel, log: PartitionLog) -> None:
    append(log, SECOND, token="new")
    append(log, FIRST, token="repeated")
    assert settle(disk, log) == ["new", "repeated"]
    assert log.recovery_point == log.log_end_offset == 2


def test_twice_at_once(disk: DiskModel, log: PartitionLog) -> None:
    append(log, FIRST, token="repeated")
    append(log, FIRST, token="again")
    assert settle(disk, log) == ["repeated", "again"]
    assert log.log_end_offset == 1
