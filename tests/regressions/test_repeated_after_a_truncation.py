"""A truncation forgot all batches of a producer but the last, also those that stayed in the log.

Found by the simulation, with a client that acts as Java's: five batches were in the logs of a leader and of its
followers when another one led for a moment. The followers were truncated behind the five. The old leader led again, and
answered the first of them, sent again, with OUT_OF_ORDER_SEQUENCE_NUMBER: the client began another epoch, and wrote all
five a second time.
"""

from __future__ import annotations

import pytest

from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.producer_state import BATCHES_KEPT_MAX, ForgottenBatch
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import append, batch, new_log, settle
from tests.unit.logstore.storage.test_truncation import cut

BATCHES = 9
CUT_AT = 6


def produced(sequence: int, *, epoch: int = 0) -> bytes:
    return batch(1, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def cut_twice(disk: DiskModel, log: PartitionLog, offset: int, end_offset: int) -> None:
    """A truncated log goes on in a new segment: the second truncation finds no batches behind its snapshot."""
    for _ in range(2):
        for sequence in range(log.next_offset, end_offset):
            append(log, produced(sequence))
        settle(disk, log)
        cut(disk, log, offset)


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


@pytest.fixture
def log(disk: DiskModel) -> PartitionLog:
    """Nine batches of one producer, of which the first six stay. A segment begins behind them, with a snapshot."""
    log = new_log(disk)
    cut_twice(disk, log, CUT_AT, BATCHES)
    return log


def test_what_stays_in_a_truncated_log_is_still_a_repetition(log: PartitionLog) -> None:
    for sequence in range(CUT_AT):
        repeated = append(log, produced(sequence))
        assert (repeated.is_duplicate, repeated.base_offset) == (True, sequence)


def test_what_was_truncated_is_written_when_it_comes_again(log: PartitionLog) -> None:
    for sequence in range(CUT_AT, BATCHES):
        written = append(log, produced(sequence))
        assert (written.is_duplicate, written.base_offset) == (False, sequence)


def test_a_producer_that_began_another_epoch_behind_the_cut_keeps_what_the_snapshot_has(disk: DiskModel) -> None:
    log = new_log(disk)
    for sequence in range(3):
        append(log, produced(sequence))
    append(log, produced(0, epoch=1))
    settle(disk, log)
    cut(disk, log, 3)
    repeated = append(log, produced(2))
    assert (repeated.is_duplicate, repeated.base_offset) == (True, 2)


def test_the_run_of_sequences_ends_where_the_log_was_cut(disk: DiskModel) -> None:
    log = new_log(disk)
    count = BATCHES_KEPT_MAX + 20
    cut_twice(disk, log, count - 10, count)
    (entry,) = log.producers.entries()
    assert entry.run_length == count - 10
    assert entry.last_sequence == count - 11
    assert isinstance(log.producers.check(7, 0, 2, 0), ForgottenBatch)
