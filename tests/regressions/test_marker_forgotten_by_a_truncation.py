"""A truncation behind a marker forgot that the marker was not committed yet: the last stable offset went past it.

Found by the simulation. A log had a marker above the watermark, and more behind it, when another logstore led. It was
truncated behind the marker, where a segment began: the snapshot there has only open transactions. Its last stable
offset became the high watermark, in the midst of the transaction: a `read_committed` consumer of this follower was
given records of a transaction whose marker was not committed.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import append, batch, new_log, settle
from tests.unit.logstore.storage.test_transactions import end, stable, write
from tests.unit.logstore.storage.test_truncation import cut

FIRST, MARKER, BEHIND = 1, 3, 4
TIMES = 40


def append_others(disk: DiskModel, log: PartitionLog) -> None:
    append(log, batch(1))
    settle(disk, log)


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


@pytest.fixture
def log(disk: DiskModel) -> PartitionLog:
    """Truncated twice behind the marker of offset 3: the second time there is nothing behind the snapshot."""
    log = new_log(disk)
    append_others(disk, log)
    write(log, 0)
    write(log, 1)
    end(log, commit=True)
    for _ in range(2):
        append_others(disk, log)
        assert stable(log, MARKER) == FIRST
        cut(disk, log, BEHIND)
    return log


def test_a_marker_that_stays_is_waited_for(log: PartitionLog) -> None:
    assert log.log_end_offset == BEHIND
    for high_watermark in (MARKER - 1, MARKER):
        assert stable(log, high_watermark) == FIRST
    assert stable(log, BEHIND) == BEHIND
    assert log.producers.transactions.is_none


def test_a_marker_that_is_cut_off_ends_its_transaction_once_it_comes_again(disk: DiskModel, log: PartitionLog) -> None:
    cut(disk, log, MARKER)
    assert stable(log) == FIRST
    append_others(disk, log)
    marker_offset = end(log, commit=False)
    settle(disk, log)
    assert marker_offset == MARKER + 1
    assert stable(log, MARKER + 1) == FIRST
    assert stable(log) == MARKER + 2


def test_a_log_that_starts_over_waits_for_nothing(disk: DiskModel, log: PartitionLog) -> None:
    cut(disk, log, 100, truncate_fully=True)
    assert stable(log) == 100
    assert log.producers.transactions.is_none


@given(st.integers(0, 10_000))
def test_what_is_stable_is_what_the_batches_say(seed: int) -> None:
    """For any history of transactions, watermarks and truncations."""
    random, disk = Random(seed), DiskModel()
    log = new_log(disk, random.choice([TopicConfig(), TopicConfig(segment_bytes=500, index_interval_bytes=0)]))
    # By offset: the producer, and whether it is a marker.
    batches: list[tuple[int, bool]] = []
    high_watermark = 0
    for _ in range(random.randrange(TIMES)):
        producer_id, chance = random.choice([1, 2, 3]), random.random()
        if chance < 0.4:
            entry = log.producers.entry_of(producer_id)
            write(log, 0 if entry is None else entry.last_sequence + 1, producer_id=producer_id)
            batches.append((producer_id, False))
        elif chance < 0.6:
            end(log, commit=random.random() < 0.5, producer_id=producer_id)
            batches.append((producer_id, True))
        elif chance < 0.8:
            high_watermark = random.randint(high_watermark, log.log_end_offset)
        else:
            settle(disk, log)
            if log.log_end_offset > high_watermark:
                cut(disk, log, random.randrange(high_watermark, log.log_end_offset))
                del batches[log.log_end_offset :]
        assert stable(log, high_watermark) == first_unstable(batches, high_watermark)


def first_unstable(batches: list[tuple[int, bool]], high_watermark: int) -> int:
    opened: dict[int, int] = {}
    least = high_watermark
    for offset, (producer_id, is_marker) in enumerate(batches):
        if not is_marker:
            opened.setdefault(producer_id, offset)
        else:
            first_offset = opened.pop(producer_id, offset)
            least = min(least, first_offset) if offset >= high_watermark else least
    return min([least, *opened.values()])
