"""What the storage tests share: batches, a log on a model disk, and the turn of the effects."""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.compression import Decompress
from barnabas.ports.disk import Disk, DiskError
from barnabas.runtime.compression import CODECS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import Records
from barnabas.wire.record_batch import Record, build_batch, iterate_headers
from barnabas_logstore.core.storage.batches.batch_opening import open_batch
from barnabas_logstore.core.storage.batches.batch_validation import Doubt
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import (
    AbortedTransaction,
    FoundAborted,
    FoundBatches,
    NotFound,
    OffsetAtTimestamp,
    Refusal,
)
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import OpenedLog, open_log

DIRECTORY = "/data/orders-0"
WALL_MS = 1_700_000_000_000


def batch(
    records_count: int = 1,
    *,
    value_bytes: int = 20,
    timestamp_ms: int = WALL_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch as a client sends it; its records are a millisecond apart."""
    records = [Record(b"k", b"v" * value_bytes, timestamp_ms + index) for index in range(records_count)]
    return build_batch(records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)


def reopen(
    disk: Disk,
    config: TopicConfig | None = None,
    *,
    recovery_point: int = 0,
    shut_down_cleanly: bool = False,
    log_start_offset: int = 0,
) -> OpenedLog:
    disk.make_directory("/data")
    disk.make_directory(DIRECTORY)
    return open_log(
        disk,
        DIRECTORY,
        ("orders", 0),
        config or TopicConfig(),
        recovery_point=recovery_point,
        shut_down_cleanly=shut_down_cleanly,
        log_start_offset=log_start_offset,
    )


def new_log(disk: Disk, config: TopicConfig | None = None) -> PartitionLog:
    return reopen(disk, config).log


def append(log: PartitionLog, records: bytes, *, leader_epoch: int = 0, token: object = None) -> AppendOutcome:
    outcome = examined_append(log, records, WALL_MS, leader_epoch, token)
    assert isinstance(outcome, AppendOutcome), outcome
    return outcome


def examined_append(
    log: PartitionLog, records: bytes, wall_ms: int, leader_epoch: int = 0, token: object = None
) -> AppendOutcome | ErrorCode:
    """Append a batch, which is opened if its header is in doubt, as `BatchValidationQueue` does."""
    outcome = log.append(memoryview(records), leader_epoch, wall_ms, token)
    if not isinstance(outcome, Doubt):
        return outcome
    opened = open_batch(memoryview(records), "orders-0", log.config, wall_ms, CODECS)
    if isinstance(opened, Refusal):
        return opened.error
    outcome = log.append(opened, leader_epoch, wall_ms, token, is_examined=True)
    assert not isinstance(outcome, Doubt)
    return outcome


def refusal(log: PartitionLog, records: bytes, *, wall_ms: int = WALL_MS) -> ErrorCode:
    before = log.next_offset
    outcome = examined_append(log, records, wall_ms)
    assert isinstance(outcome, ErrorCode), outcome
    assert log.next_offset == before
    return outcome


def settle(disk: Disk, log: PartitionLog, now_ms: int = 0) -> list[object]:
    """Run writes and due flushes until nothing is left; the tokens that came back. A failure takes the log offline."""
    tokens: list[object] = []
    while True:
        effect = log.begin_write()
        flush = None if effect is not None else log.begin_due_flush(now_ms)
        try:
            if effect is not None:
                execute(disk, effect)
                tokens += log.on_written(effect)
            elif flush is not None:
                execute(disk, flush)
                log.on_flushed(flush)
            else:
                return tokens
        except DiskError as error:
            return tokens + log.fail(error)


def close(disk: Disk, log: PartitionLog) -> None:
    settle(disk, log)
    flush = log.begin_closing_flush()
    if flush is not None:
        execute(disk, flush)
        log.on_flushed(flush)


def read(
    disk: Disk,
    log: PartitionLog,
    offset: int,
    max_bytes: int = 1 << 20,
    upto_offset: int | None = None,
    *,
    min_one_batch: bool = True,
) -> bytes | ErrorCode:
    return read_counting_effects(disk, log, offset, max_bytes, upto_offset, min_one_batch=min_one_batch)[0]


def read_counting_effects(
    disk: Disk,
    log: PartitionLog,
    offset: int,
    max_bytes: int = 1 << 20,
    upto_offset: int | None = None,
    *,
    min_one_batch: bool = True,
) -> tuple[bytes | ErrorCode, int]:
    upto = log.log_end_offset if upto_offset is None else upto_offset
    plan = log.plan_read(offset, max_bytes, upto, min_one_batch=min_one_batch)
    if plan is None:
        return b"", 0
    if not isinstance(plan, ReadPlan):
        return plan, 0
    answer = log.finish_read(plan, run_read(disk, plan.effect))
    effects = 1
    while isinstance(answer, ReadBatchesEffect):
        answer = log.finish_read(plan, run_read(disk, answer))
        effects += 1
        assert effects < 10_000, "a read that never ends"
    return answer if isinstance(answer, ErrorCode) else bytes(answer), effects


def aborted_of_records(
    disk: Disk, log: PartitionLog, plan: ReadPlan, records: Records
) -> list[AbortedTransaction] | ErrorCode:
    """Look the aborted transactions of a read up, by a worker where a file has to be read."""
    lookup = log.aborted_transactions(plan, records)
    if isinstance(lookup, list | ErrorCode):
        return lookup
    result: FoundAborted | None = None
    while True:
        try:
            effect = lookup.send(result)
        except StopIteration as end:
            found: list[AbortedTransaction] | ErrorCode = end.value
            return found
        result = effect.result.of(execute(disk, effect))  # type: ignore[arg-type]


def run_read(disk: Disk, effect: ReadBatchesEffect) -> FoundBatches | NotFound:
    found = execute(disk, effect)
    assert isinstance(found, FoundBatches | NotFound)
    return found


def read_all(disk: Disk, log: PartitionLog) -> list[tuple[int, int]]:
    """(base offset, last offset) of every batch, fetched as a consumer does it."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = read(disk, log, offset)
        assert isinstance(data, bytes)
        headers = [header for _, header in iterate_headers(data)]
        assert headers, f"nothing at {offset} of {log.log_end_offset}"
        found += [(header.base_offset, header.last_offset) for header in headers]
        offset = headers[-1].next_offset
    return found


def lookup(
    disk: Disk,
    log: PartitionLog,
    timestamp_ms: int,
    upto_offset: int | None = None,
    decompress: Decompress = lambda codec, data, limit: None,
) -> OffsetAtTimestamp:
    steps = log.lookup_timestamp(timestamp_ms, log.log_end_offset if upto_offset is None else upto_offset, decompress)
    try:
        effect = next(steps)
        while True:
            effect = steps.send(execute(disk, effect))
    except StopIteration as done:
        answer = done.value
        assert isinstance(answer, OffsetAtTimestamp)
        return answer


def flush_all(disk: Disk, directory: LogDirectory) -> None:
    """The closing flushes, whatever their form."""
    for closing in directory.closing_flushes():
        execute(disk, closing.effect)
        for log, flush in closing.flushes:
            log.on_flushed(flush)
