"""A Fetch opened the files of each closed segment that it read from first, and mapped two indexes of it, in the turn of
the event loop that planned it: on a cold disk one Fetch of many partitions stopped the loop for hundreds of seeks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.channel.messages import ReadPartitionResult
from barnabas.cluster.messages import TopicMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import FoundBatches
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.file_parts import UnopenedFile
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from barnabas_logstore.shell.io_workers import IoWorkers
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.regressions.test_aborted_transactions_of_many_segments import CountingDisk, reopened
from tests.unit.logstore.compaction.support import clean
from tests.unit.logstore.service.support import EXCHANGE, READ, Host, fetch, offsets, topic
from tests.unit.logstore.service.test_turns import stop
from tests.unit.logstore.storage.support import DIRECTORY, WALL_MS, append, batch, close, new_log, run_read, settle

PARTITIONS = 12
SEGMENTS = 3
CONFIG = TopicConfig(segment_bytes=300, index_interval_bytes=0)
FIRST = f"{DIRECTORY}/{0:020d}"


# --- a Fetch of many partitions --------------------------------------------------------------------------------------


def led(epoch: int) -> TopicMetadata:
    return topic(epoch, epoch, partitions=PARTITIONS, configs={"segment.bytes": str(1 << 20)})


def restarted() -> tuple[Host, CountingDisk]:
    """A logstore that leads partitions with a closed segment of two batches. None has been read since its start."""
    disk = CountingDisk()
    host = Host(disk)
    assert host.lead(led(0)).partition_errors == []
    host.greet(EXCHANGE, READ)
    for partition in range(PARTITIONS):
        for value_bytes in (1_000, 1_000, 1_047_000):
            assert host.append(batch(value_bytes=value_bytes), partition=partition).error_code == 0
    host.settle()
    assert stop(host) == []
    again = Host(disk)
    assert again.lead(led(2)).partition_errors == []
    again.greet(EXCHANGE, READ)
    again.settle()
    disk.close_files()
    return again, disk


def fetched(host: Host, disk: CountingDisk, offset: int, bytes_max: int) -> tuple[list[ReadPartitionResult], int]:
    """What one Fetch of all partitions finds, and how many files were not open when it was planned. The event loop
    opens none.
    """
    host.holds_effects = True
    disk.take_opened()
    request_id = host.read_request(
        *[fetch(offset, partition=partition, current_leader_epoch=2) for partition in range(PARTITIONS)],
        bytes_max=bytes_max,
    )
    host.turn()
    while host.core.has_work:
        host.turn()
    assert disk.take_opened() == []
    reads = [effect for effect in host.held if isinstance(effect, ReadBatchesEffect)]
    host.holds_effects = False
    host.settle()
    return host.read_results.pop(request_id).partitions, [
        isinstance(effect.part.file, UnopenedFile) for effect in reads
    ].count(True)


def test_a_fetch_of_cold_segments_opens_no_file_in_the_event_loop() -> None:
    host, disk = restarted()
    results, unopened = fetched(host, disk, 1, 1 << 20)
    assert unopened == PARTITIONS
    assert [offsets(each.records) for each in results] == [[1]] * PARTITIONS
    # What a worker has opened is open.
    again, unopened = fetched(host, disk, 1, 1 << 20)
    assert unopened == 0
    assert [bytes(each.records) for each in again] == [bytes(each.records) for each in results]
    assert [each.fetch_position for each in again] == [each.fetch_position for each in results]


def test_nor_for_the_partitions_that_it_has_no_bytes_left_for() -> None:
    host, disk = restarted()
    results, unopened = fetched(host, disk, 1, 1)
    assert unopened == 1
    assert [len(each.records) > 0 for each in results] == [True] + [False] * (PARTITIONS - 1)
    assert {each.fetch_position for each in results[1:]} == {0}, "where the segment begins: what follows is counted"


# --- what happens to a log before a worker has opened its file -------------------------------------------------------


def cold_log(disk: CountingDisk, config: TopicConfig = CONFIG) -> PartitionLog:
    log = new_log(disk, config)
    for number in range(3 * SEGMENTS):
        append(log, batch(1, timestamp_ms=WALL_MS + number))
        settle(disk, log)
    log = reopened(disk, log, config)
    disk.close_files()
    assert len(log.segments) >= SEGMENTS
    return log


def planned(log: PartitionLog, offset: int = 1) -> ReadPlan:
    """A read of one batch of the first segment, the file of which is not open."""
    plan = log.plan_read(offset, 1, log.log_end_offset, min_one_batch=True)
    assert isinstance(plan, ReadPlan)
    assert isinstance(plan.effect.part.file, UnopenedFile)
    return plan


def finished(disk: CountingDisk, log: PartitionLog, plan: ReadPlan) -> int | ErrorCode:
    """The offset of the batch that a planned read finds."""
    while True:
        answer = log.finish_read(plan, run_read(disk, plan.effect))
        if isinstance(answer, ErrorCode):
            return answer
        if not isinstance(answer, ReadBatchesEffect):
            return int.from_bytes(bytes(answer)[:8], "big")


def test_its_segment_is_deleted() -> None:
    disk = CountingDisk()
    log = cold_log(disk)
    plan = planned(log)
    log.retire_segments(1)
    settle(disk, log)
    assert finished(disk, log, plan) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.error is None


@pytest.mark.parametrize("is_swapped", [False, True])
def test_its_segment_is_replaced(*, is_swapped: bool) -> None:
    """Under its name is a shorter one then, and the read goes on in that, or in what follows it."""
    disk = CountingDisk()
    log = cold_log(disk, TopicConfig(segment_bytes=300, index_interval_bytes=0, cleanup_policy="compact"))
    plan = planned(log)
    found = run_read(disk, plan.effect) if not is_swapped else None
    clean(disk, log)
    kept = log.segments.first
    answer = log.finish_read(plan, found if found is not None else run_read(disk, plan.effect))
    assert isinstance(answer, ReadBatchesEffect), "what was found is not the log's any more"
    assert plan.segment is kept
    offset = finished(disk, log, plan)
    assert isinstance(offset, int)
    assert offset >= 1


def damages() -> list[tuple[str, Callable[[CountingDisk], None]]]:
    def torn(suffix: str) -> Callable[[CountingDisk], None]:
        return lambda disk: disk.truncate(disk.open(FIRST + suffix), 5)

    def lost(suffix: str) -> Callable[[CountingDisk], None]:
        return lambda disk: disk.remove(FIRST + suffix)

    suffixes = (".index", ".timeindex")
    return [("torn", torn(each)) for each in suffixes] + [("lost", lost(each)) for each in suffixes]


@pytest.mark.parametrize("damage", [each for _, each in damages()])
def test_an_index_is_rebuilt_if_the_worker_can_not_use_it(damage: Callable[[CountingDisk], None]) -> None:
    disk = CountingDisk()
    log = cold_log(disk)
    sound = [disk.read_file(FIRST + suffix) for suffix in (".index", ".timeindex")]
    damage(disk)
    assert finished(disk, log, planned(log)) == 1
    assert [disk.read_file(FIRST + suffix) for suffix in (".index", ".timeindex")] == sound


def test_a_wrong_entry_costs_a_search_from_the_beginning() -> None:
    disk = CountingDisk()
    log = cold_log(disk)
    # The middle one: the last one tells whether the index is this segment's.
    disk.write_at(disk.open(FIRST + ".index"), 4, ((7).to_bytes(4, "big"),))
    disk.close_files()
    assert finished(disk, log, planned(log)) == 1


def test_its_log_is_lost() -> None:
    """As where the event loop opens it: the log directory is to blame."""
    disk = CountingDisk()
    log = cold_log(disk)
    plan = planned(log)
    disk.remove(FIRST + ".log")
    with pytest.raises(DiskError) as error:
        finished(disk, log, plan)
    assert error.value.kind is DiskErrorKind.NOT_FOUND


# --- by the workers of a real disk -----------------------------------------------------------------------------------


async def test_a_worker_opens_what_the_loop_then_reads_in_place(tmp_path: Path) -> None:
    path = str(tmp_path)
    log = open_log(PosixDisk(), path, ("orders", 0), CONFIG, recovery_point=0, shut_down_cleanly=False).log
    for number in range(3 * SEGMENTS):
        append(log, batch(1, timestamp_ms=WALL_MS + number))
        settle(PosixDisk(), log)
    close(PosixDisk(), log)
    disk = PosixDisk()
    log = open_log(disk, path, ("orders", 0), CONFIG, recovery_point=log.log_end_offset, shut_down_cleanly=True).log
    workers = IoWorkers(disk, 1)
    workers.begin_turn()
    plan = planned(log)
    assert workers.run_in_place(plan.effect) is None
    found = execute(disk, plan.effect)
    assert isinstance(found, FoundBatches)
    records = log.finish_read(plan, found)
    again = log.plan_read(1, 1, log.log_end_offset, min_one_batch=True)
    assert isinstance(again, ReadPlan)
    assert not isinstance(again.effect.part.file, UnopenedFile)
    assert log.finish_read(again, run_read(disk, again.effect)) == records
    assert again.fetch_position == plan.fetch_position > 0
