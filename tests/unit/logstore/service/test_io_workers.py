"""IO workers: what is done in place, what is handed over, and how outcomes come back."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.channel.generated.packing import pack_exchange_request
from barnabas.channel.messages import ExchangeRequest
from barnabas.cluster.topic_config import TopicConfig
from barnabas.containment import Uncontained
from barnabas.metrics.log_families import IO_QUEUE_SIZE
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.runtime.compression import CODECS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange
from barnabas.wire.record_batch import parse_header
from barnabas_logstore.core.replica.containment import BATCH_WORK, DISK_WORK, LogstoreContainment
from barnabas_logstore.core.storage import effect_execution
from barnabas_logstore.core.storage.effect_results import FoundBatches, Refusal
from barnabas_logstore.core.storage.effects import (
    DeleteDirectoryEffect,
    FindRecordEffect,
    FlushEffect,
    ReadBatchesEffect,
    ReadEffect,
    ValidateBatchEffect,
    WriteEffect,
)
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.shell import io_workers
from barnabas_logstore.shell.data_listener import DataListener
from barnabas_logstore.shell.driver import LogstoreDriver
from barnabas_logstore.shell.io_workers import IN_PLACE_BYTES_MAX, Completion, EffectFault, IoWorkers
from barnabas_logstore.shell.open_files import PosixFile
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.service.support import EXCHANGE, WALL_MS, Host, append_results, batch, topic


class SlowDisk(PosixDisk):
    """A disk whose kernel throttles writers: a write moves the clock."""

    clock_ns = 0
    write_ns = 0
    waits = 0
    waits_per_write = 1

    def write_at(self, *arguments: object) -> None:
        super().write_at(*arguments)  # type: ignore[arg-type]
        SlowDisk.clock_ns += SlowDisk.write_ns
        SlowDisk.waits += SlowDisk.waits_per_write


@pytest.fixture
def disk() -> SlowDisk:
    SlowDisk.clock_ns = SlowDisk.write_ns = SlowDisk.waits = 0
    SlowDisk.waits_per_write = 1
    return SlowDisk()


@pytest.fixture
def log(disk: SlowDisk, tmp_path: Path) -> PartitionLog:
    return open_log(disk, str(tmp_path), ("t", 0), TopicConfig(), recovery_point=0, shut_down_cleanly=False).log


@pytest.fixture
async def workers(disk: SlowDisk) -> AsyncIterator[IoWorkers]:
    running = IoWorkers(disk, 2)
    running.start(done.extend, faults.extend)
    done.clear()
    faults.clear()
    yield running
    running.stop()


done: list[Completion] = []
faults: list[EffectFault] = []


async def outcomes(count: int) -> list[Completion]:
    """What the workers have said, once it is so much."""
    async with asyncio.timeout(30):
        while len(done) < count:
            await asyncio.sleep(0.001)
    return done


async def all_faults(count: int) -> list[EffectFault]:
    async with asyncio.timeout(30):
        while len(faults) < count:
            await asyncio.sleep(0.001)
    return faults


def write(log: PartitionLog, value_bytes: int = 20) -> WriteEffect:
    log.append(memoryview(batch(value_bytes=value_bytes)), 0, WALL_MS, None)
    effect = log.begin_write()
    assert effect is not None
    return effect


async def test_small_writes_are_done_in_place_until_the_turns_budget_is_spent(
    workers: IoWorkers, log: PartitionLog
) -> None:
    for _ in range(2):
        workers.begin_turn()
        effect = write(log, IN_PLACE_BYTES_MAX // 2)
        assert workers.run_in_place(effect) == b""
        log.on_written(effect)
        effect = write(log, IN_PLACE_BYTES_MAX // 2)
        assert workers.run_in_place(effect) is None
        workers.submit(effect)
        assert await outcomes(1) == [(effect, b"")]
        done.clear()
        log.on_written(effect)
    assert PosixDisk().size(log.segments.active.file) == log.written_position


async def test_a_write_that_has_to_be_flushed_is_handed_over(workers: IoWorkers, log: PartitionLog) -> None:
    effect = write(log)
    effect.flush = FlushEffect(log.directory, 1)
    workers.begin_turn()
    assert workers.run_in_place(effect) is None
    assert workers.run_in_place(FlushEffect(log.directory, 1)) is None


async def test_after_a_slow_write_workers_do_the_writes_for_a_while(
    workers: IoWorkers, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_workers, "perf_counter_ns", lambda: SlowDisk.clock_ns)
    monkeypatch.setattr(io_workers, "_voluntary_switches", lambda: SlowDisk.waits)
    SlowDisk.write_ns = io_workers.SLOW_WRITE_NS + 1
    expected = [b"", None, None, b""]
    for outcome in expected:
        workers.begin_turn()
        effect = write(log)
        assert workers.run_in_place(effect) == outcome
        if outcome is None:
            SlowDisk.clock_ns += io_workers.AFTER_SLOW_WRITE_NS // 2
            workers.submit(effect)
            await outcomes(1)
            done.clear()
        log.on_written(effect)


async def test_a_write_that_was_only_kept_from_its_core_tells_nothing_of_the_disk(
    workers: IoWorkers, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_workers, "perf_counter_ns", lambda: SlowDisk.clock_ns)
    monkeypatch.setattr(io_workers, "_voluntary_switches", lambda: SlowDisk.waits)
    SlowDisk.write_ns, SlowDisk.waits_per_write = io_workers.SLOW_WRITE_NS + 1, 0
    for _ in range(3):
        workers.begin_turn()
        effect = write(log)
        assert workers.run_in_place(effect) == b""
        log.on_written(effect)


async def test_what_the_page_cache_has_is_read_in_place(workers: IoWorkers, log: PartitionLog) -> None:
    effect = write(log)
    workers.begin_turn()
    workers.run_in_place(effect)
    log.on_written(effect)
    position, length = 0, log.written_position
    read = ReadEffect(log.segments.active.file, position, length)
    outcome = workers.run_in_place(read)
    if outcome is None:
        pytest.skip("this file system has no RWF_NOWAIT")
    assert isinstance(outcome, memoryview)
    assert outcome[61:] == batch()[61:]
    # Past the end of the file, only a worker can tell that there is no more.
    assert workers.run_in_place(ReadEffect(log.segments.active.file, position, length + 1)) is None
    assert workers.run_in_place(ReadEffect(log.segments.active.file, 0, IN_PLACE_BYTES_MAX + 1)) is None


async def test_an_error_is_an_outcome(workers: IoWorkers, tmp_path: Path) -> None:
    workers.submit(DeleteDirectoryEffect(f"{tmp_path}/absent"))
    ((_, outcome),) = await outcomes(1)
    assert isinstance(outcome, DiskError)
    assert outcome.kind is DiskErrorKind.NOT_FOUND


async def test_a_fault_in_a_worker_is_an_outcome_and_the_worker_goes_on(
    workers: IoWorkers, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in silence, and its partition hung under a lease that was alive."""
    monkeypatch.setattr(SlowDisk, "write_at", broken)
    monkeypatch.setattr(SlowDisk, "flush", broken)
    workers.submit(write(log))
    for _ in range(4):  # More than there are workers.
        workers.submit(FlushEffect(log.directory, 1, files=[log.segments.active.log_path]))
    contained = LogstoreContainment()
    failed = [contained.work_failed(*fault) for fault in await all_faults(5)]
    for outcome in failed:
        assert isinstance(outcome, DiskError)
        assert outcome.kind is DiskErrorKind.IO
        assert "ValueError: a fault of ours" in str(outcome)
    assert [outcome.operation for outcome in failed if isinstance(outcome, DiskError)].count("flush") == 4
    assert contained.counts[DISK_WORK] == 5
    assert done == []
    assert {sample.family: sample.value for sample in workers.samples()}[IO_QUEUE_SIZE] == 0


async def test_a_fault_in_the_work_on_a_batch_is_no_fault_of_the_disk(
    workers: IoWorkers, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effect_execution, "open_batch", broken)
    monkeypatch.setattr(effect_execution, "first_record_of", broken)
    records = batch()
    opening = ValidateBatchEffect(memoryview(records), "t-0", TopicConfig(), WALL_MS, CODECS)
    search = FindRecordEffect(parse_header(records), bytes(records), 0, 0, CODECS.decompress)
    workers.submit(opening)
    workers.submit(search)
    contained = LogstoreContainment()
    failed = [contained.work_failed(*fault) for fault in await all_faults(2)]
    assert failed == [Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)] * 2
    assert contained.counts[BATCH_WORK] == 2


async def test_a_read_in_place_that_fails_is_an_outcome(
    workers: IoWorkers, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers.submit(write(log))
    await outcomes(1)

    def preadv(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(io_workers.os, "preadv", preadv)
    outcome = workers.run_in_place(ReadEffect(log.segments.active.file, 0, 10))
    assert isinstance(outcome, DiskError)


def broken(*_: object) -> None:
    raise ValueError("a fault of ours")


async def test_many_effects_come_back_once_each(workers: IoWorkers, log: PartitionLog) -> None:
    reads = [ReadEffect(log.segments.active.file, 0, 10) for _ in range(500)]
    for effect in reads:
        workers.submit(effect)
    assert {id(effect) for effect, _ in await outcomes(500)} == {id(effect) for effect in reads}
    assert len(done) == 500


# --- batches ---


def read_of(log: PartitionLog, *, range_bytes_min: int) -> ReadBatchesEffect:
    plan = log.plan_read(0, 1 << 20, log.log_end_offset, min_one_batch=True, range_bytes_min=range_bytes_min)
    assert isinstance(plan, ReadPlan)
    return plan.effect


async def test_batches_in_the_page_cache_are_found_in_place(workers: IoWorkers, log: PartitionLog) -> None:
    effect = write(log)
    workers.begin_turn()
    workers.run_in_place(effect)
    log.on_written(effect)
    found = workers.run_in_place(read_of(log, range_bytes_min=1))
    if found is None:
        pytest.skip("this file system has no RWF_NOWAIT")
    assert isinstance(found, FoundBatches)
    assert found.records == FileRange(log.segments.active.file, 0, log.written_position)
    copied = workers.run_in_place(read_of(log, range_bytes_min=0))
    assert isinstance(copied, FoundBatches)
    assert bytes(copied.records)[61:] == batch()[61:]  # type: ignore[arg-type]  # bytes were asked for


async def test_a_range_that_is_not_in_the_page_cache_is_a_workers(workers: IoWorkers, log: PartitionLog) -> None:
    effect = write(log)
    workers.begin_turn()
    workers.run_in_place(effect)
    log.on_written(effect)
    file = log.segments.active.file
    assert isinstance(file, PosixFile)
    os.fsync(file.descriptor)
    os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    read = read_of(log, range_bytes_min=1)
    if workers.run_in_place(read) is not None:
        pytest.skip("this file system forgets nothing")
    workers.submit(read)
    ((_, found),) = await outcomes(1)
    assert isinstance(found, FoundBatches)
    assert found.records == FileRange(file, 0, log.written_position)
    workers.begin_turn()
    assert workers.run_in_place(read) == found


@pytest.mark.parametrize("in_place", [True, False])
async def test_a_fault_takes_the_log_directory_offline_and_is_counted(
    monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    host = Host(directories=2)
    host.lead(topic())
    host.greet(EXCHANGE)
    said: list[Outputs] = []
    running = IoWorkers(host.disk, 1)
    driver = LogstoreDriver(host.core, running, said.append, lambda: None)
    monkeypatch.setattr(DiskModel, "write_at", broken)
    monkeypatch.setattr(DiskModel, "flush", broken)
    if not in_place:
        monkeypatch.setattr(IoWorkers, "run_in_place", lambda self, effect: None)
    driver.start()
    try:
        host.send(host.append_request())
        driver.wake()
        async with asyncio.timeout(30):
            while not (results := [result for out in said for result in append_results(out)]):
                await asyncio.sleep(0.001)
    finally:
        driver.stop()
        running.stop()
    assert [result.error_code for result in results] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert host.core.contained.counts[DISK_WORK] == 1
    assert not driver.failed.done()
    assert not host.core.all_directories_offline


def uncontained(*args: object) -> object:
    raise Uncontained("planted")


@pytest.mark.parametrize("part", ["step", "on_exchange"])
async def test_a_partition_that_is_half_offline_ends_the_process(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """In a turn, and in a message of a stream, where other exceptions cost the stream alone."""
    host = Host()
    running = IoWorkers(host.disk, 1)
    driver = LogstoreDriver(host.core, running, lambda outputs: None, lambda: None)
    listener = DataListener(cast("Any", SimpleNamespace(add_generic_rpc_handlers=lambda handlers: None)))
    listener.serve(driver)
    monkeypatch.setattr(host.core, part, uncontained)
    if part == "step":
        driver._turn()
    else:
        opened: Any = SimpleNamespace(peer="a gateway", close=pytest.fail, inbox=None)
        listener._open_exchange(opened).on_message(pack_exchange_request(ExchangeRequest()))
    running.stop()
    assert isinstance(driver.failed.exception(), RuntimeError)
