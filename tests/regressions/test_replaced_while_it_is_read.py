"""A read_committed fetch of a segment that is cleaned, or deleted, while its bytes are on their way.

The aborted transactions of the fetch were looked up with the segment's offset index, mapped from its file only then:
where the file was gone by now, an unhandled DiskError left the core. And what is known of the transactions of
deleted records is deleted with them: without it, aborted records would be returned as if they were committed.
Found by seed 98 of the mutant `isr of an older leader epoch is accepted`, which failed without the mutant.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.compaction.support import clean
from tests.unit.logstore.storage.support import aborted_of_records, close, new_log, reopen, run_read, settle
from tests.unit.logstore.storage.test_transactions import end, stable, write

SEGMENTS = 5


def with_aborted_transactions(disk: DiskModel, cleanup_policy: str) -> PartitionLog:
    """Each segment has one, and nothing of its files is in memory."""
    config = TopicConfig(segment_bytes=200, index_interval_bytes=0, cleanup_policy=cleanup_policy)
    log = new_log(disk, config)
    for number in range(SEGMENTS):
        write(log, number)
        end(log, commit=False)
        settle(disk, log)
    close(disk, log)
    # The cleaner may put several of them together.
    log = reopen(disk, replace(config, segment_bytes=10_000), recovery_point=log.log_end_offset).log
    settle(disk, log)
    assert len(log.segments.all()) == SEGMENTS
    return log


def read_begun(disk: DiskModel, log: PartitionLog, offset: int) -> tuple[ReadPlan, memoryview]:
    """The fetch's plan and the bytes that were found, before anything is made of them."""
    plan = log.plan_read(offset, 1 << 20, stable(log), min_one_batch=True)
    assert isinstance(plan, ReadPlan)
    assert plan.segment._offset_index is None, "at the start of a segment none is needed"
    found = run_read(disk, plan.effect)
    records = log.finish_read(plan, found)
    assert isinstance(records, memoryview)
    return plan, records


def test_what_was_cleaned_since_names_its_aborted_transactions() -> None:
    disk = DiskModel()
    log = with_aborted_transactions(disk, "compact")
    plan, records = read_begun(disk, log, 2)
    clean(disk, log)
    assert plan.segment.is_retired
    assert not disk.exists(plan.segment.log_path), "it was put together with the one before it"
    aborted = aborted_of_records(disk, log, plan, records)
    assert isinstance(aborted, list)
    assert 2 in [each.first_offset for each in aborted]


def test_what_was_deleted_since_is_out_of_range() -> None:
    disk = DiskModel()
    log = with_aborted_transactions(disk, "delete")
    plan, records = read_begun(disk, log, 2)
    log.retire_segments(2)
    effect = log.begin_retirement()
    assert effect is not None
    execute(disk, effect)
    log.retirement.done(effect)
    assert aborted_of_records(disk, log, plan, records) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_is_still_there_names_what_it_did() -> None:
    disk = DiskModel()
    log = with_aborted_transactions(disk, "delete")
    plan, records = read_begun(disk, log, 2)
    log.retire_segments(1)
    aborted = aborted_of_records(disk, log, plan, records)
    assert isinstance(aborted, list)
    assert [each.first_offset for each in aborted] == [2]
