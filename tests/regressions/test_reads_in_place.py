"""Any client's question for an offset by time ended a logstore: done in place, a read had a result of another type."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.channel.messages import ExchangeRequest, OffsetAnswer, OffsetQuery
from barnabas.cluster.topic_config import TopicConfig
from barnabas.runtime.compression import CODECS
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import DONE, OffsetAtTimestamp
from barnabas_logstore.core.storage.effects import ReadBatchesEffect, ReadEffect
from barnabas_logstore.core.storage.log.features.timestamp_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    TimestampLookup,
)
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from barnabas_logstore.shell.io_workers import IoWorkers
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.sim.page_cache import read_in_place
from tests.unit.logstore.service.support import EXCHANGE, TOPIC_ID, WALL_MS, Host, batch, topic
from tests.unit.logstore.storage.support import append, settle
from tests.unit.logstore.storage.test_transactions import write

RECORDS = 100
UNKNOWN_TIMESTAMP = -7


def log_of(host: Host) -> PartitionLog:
    return host.core._replicas.by_key[(TOPIC_ID, 0)].log


def ask(host: Host, timestamp: int, isolation_level: int = 0, *, by_worker: bool = False) -> OffsetAnswer:
    """Ask for an offset; what is read for it is read in place, or by a worker."""
    host.holds_effects = by_worker
    host.core.on_exchange(
        EXCHANGE, ExchangeRequest(offset_queries=[OffsetQuery(7, TOPIC_ID, 0, -1, isolation_level, timestamp)])
    )
    answers = [answer for _, response in host.turn().exchanges for answer in response.offset_answers]
    while host.held:
        effect = host.held.pop()
        host.core.on_io_done(effect, execute(host.disk, effect))
        answers += [answer for _, response in host.turn().exchanges for answer in response.offset_answers]
    (answer,) = answers
    return answer


@pytest.mark.parametrize("by_worker", [False, True])
@pytest.mark.parametrize(
    ("timestamp", "offset", "found_ms"),
    [
        (0, 0, WALL_MS),
        (WALL_MS + 42, 42, WALL_MS + 42),
        (WALL_MS + RECORDS - 1, RECORDS - 1, WALL_MS + RECORDS - 1),
        (WALL_MS + RECORDS, -1, -1),
        (2**63 - 1, -1, -1),
        (LATEST, RECORDS, -1),
        (EARLIEST, 0, -1),
        (MAX_TIMESTAMP, RECORDS - 1, WALL_MS + RECORDS - 1),
        (EARLIEST_LOCAL, 0, -1),
        (LATEST_TIERED, -1, -1),
        (EARLIEST_PENDING_UPLOAD, -1, -1),
        (UNKNOWN_TIMESTAMP, -1, -1),
        (-(2**63), -1, -1),
    ],
)
def test_an_offset_is_found_by_time_wherever_it_is_read(
    timestamp: int, offset: int, found_ms: int, *, by_worker: bool
) -> None:
    host = Host()
    host.lead(topic())
    host.greet(EXCHANGE)
    host.append(batch(RECORDS))
    answer = ask(host, timestamp, by_worker=by_worker)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, found_ms)


@pytest.mark.parametrize("by_worker", [False, True])
def test_a_read_committed_question_sees_up_to_the_last_stable_offset(*, by_worker: bool) -> None:
    host = Host()
    host.lead(topic())
    host.greet(EXCHANGE)
    host.append(batch(2))
    write(log_of(host), 0)
    host.append(batch(1, timestamp_ms=WALL_MS + 500))
    assert ask(host, WALL_MS + 500, by_worker=by_worker).offset == 3
    assert ask(host, WALL_MS + 1, isolation_level=1, by_worker=by_worker).offset == 1
    assert ask(host, WALL_MS + 500, isolation_level=1, by_worker=by_worker).offset == -1
    assert ask(host, MAX_TIMESTAMP, isolation_level=1, by_worker=by_worker).offset == -1
    assert ask(host, LATEST, isolation_level=1, by_worker=by_worker).offset == 2


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    disk = PosixDisk()
    log = open_log(disk, str(tmp_path), ("t", 0), TopicConfig(), recovery_point=0, shut_down_cleanly=False).log
    append(log, batch(RECORDS))
    settle(disk, log)
    return log


def reads_of(log: PartitionLog) -> list[ReadEffect | ReadBatchesEffect]:
    """A read of each kind."""
    plan = log.plan_read(0, 1 << 20, log.log_end_offset, min_one_batch=True)
    assert plan is not None
    assert not isinstance(plan, int)
    return [ReadEffect(log.segments.active.file, 0, log.written_position), plan.effect]


async def test_a_read_has_one_type_of_result_in_place_and_by_a_worker(log: PartitionLog) -> None:
    workers = IoWorkers(PosixDisk(), 1)
    workers.begin_turn()
    for effect in reads_of(log):
        in_place = workers.run_in_place(effect)
        if in_place is None:
            pytest.skip("this file system has no RWF_NOWAIT")
        by_worker = execute(PosixDisk(), effect)
        assert type(in_place) is type(by_worker)
        assert isinstance(in_place, effect.result.types)
        assert in_place == by_worker
        assert type(read_in_place(PosixDisk(), effect, lambda: True)) is type(by_worker)


async def found(lookup: TimestampLookup, workers: IoWorkers, done: list[object], *, in_place: bool) -> object:
    """Run a lookup to its end, with reads in place where that is possible."""
    result: object = None
    while True:
        try:
            effect = lookup.send(result)  # type: ignore[arg-type]  # what the core checks at run time
        except StopIteration as end:
            return end.value
        result = workers.run_in_place(effect) if in_place else None
        if result is None:
            workers.submit(effect)
            async with asyncio.timeout(30):
                while not done:
                    await asyncio.sleep(0.001)
            result = done.pop()


async def test_the_hosts_own_reads_find_an_offset_by_time(log: PartitionLog) -> None:
    """The whole lookup with the reads of the real host: those in place, and those of a worker."""
    done: list[object] = []
    workers = IoWorkers(PosixDisk(), 1)
    workers.start(lambda completions: done.extend(outcome for _, outcome in completions), lambda faults: None)
    try:
        for in_place in (True, False):
            workers.begin_turn()
            lookup = log.lookup_timestamp(WALL_MS + 42, log.log_end_offset, CODECS.decompress)
            assert await found(lookup, workers, done, in_place=in_place) == OffsetAtTimestamp(WALL_MS + 42, 42, 0)
    finally:
        workers.stop()


def test_a_result_of_another_type_costs_one_question() -> None:
    host = Host()
    host.lead(topic())
    host.greet(EXCHANGE)
    host.append(batch(RECORDS))
    host.holds_effects = True
    host.core.on_exchange(EXCHANGE, ExchangeRequest(offset_queries=[OffsetQuery(7, TOPIC_ID, 0, -1, 0, WALL_MS)]))
    host.turn()
    host.run_effect(host.held[0])
    host.turn()
    read = host.held.pop()
    assert isinstance(read, ReadEffect)
    host.core.on_io_done(read, DONE)
    ((_, response),) = host.turn().exchanges
    assert [answer.error_code for answer in response.offset_answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert ask(host, WALL_MS + 42, by_worker=True).offset == 42


def test_only_a_value_of_the_declared_type_is_a_result() -> None:
    with pytest.raises(TypeError, match="a bytes, not memoryview"):
        ReadEffect.result.of(DONE)  # type: ignore[arg-type]  # which the type checker sees
