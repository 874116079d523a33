"""Append and read of 1 MB batches by one core."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import FoundBatches
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.shell.posix_disk import PosixDisk
from bench.log_core.logs import (
    BATCH_BYTES,
    GIGABYTE,
    TOPIC_PARTITION,
    NullDisk,
    Stopwatch,
    append,
    batches,
    open_bench_log,
)


@dataclass(slots=True)
class Throughput:
    """One load on one disk, once."""

    load: str
    disk: str
    gigabytes: float
    gigabytes_per_second: float
    cpu_seconds_per_gigabyte: float


def measure_throughput(places: dict[str, Path], gigabytes: float, rounds: int) -> list[Throughput]:
    """Each disk by turns; "null" keeps nothing, so it can't be read."""
    results = []
    records = batches()
    count = int(gigabytes * GIGABYTE / BATCH_BYTES)
    for _ in range(rounds):
        for name, path in places.items():
            disk = NullDisk() if name == "null" else PosixDisk()
            directory = path / f"{TOPIC_PARTITION[0]}-{TOPIC_PARTITION[1]}"
            log = open_bench_log(disk, directory).log
            results.append(_result("append", name, count, _append(disk, log, records, count)))
            if name != "null":
                _read(disk, log)
                results.append(_result("read", name, count, _read(disk, log)))
            del log
            shutil.rmtree(directory)
    return results


def _append(disk: PosixDisk, log: PartitionLog, records: list[memoryview], count: int) -> Stopwatch:
    with Stopwatch() as watch:
        for number in range(count):
            append(disk, log, records[number % len(records)])
    return watch


def _read(disk: PosixDisk, log: PartitionLog) -> Stopwatch:
    """As a consumer does it: 1 MB from each offset, in the page cache."""
    with Stopwatch() as watch:
        offset = 0
        records_in_batch = BATCH_BYTES // 1000
        while offset < log.log_end_offset:
            plan = log.plan_read(offset, 2 * BATCH_BYTES, log.log_end_offset, min_one_batch=True)
            assert isinstance(plan, ReadPlan)
            found = execute(disk, plan.effect)
            assert isinstance(found, FoundBatches)
            answer = log.finish_read(plan, found)
            assert isinstance(answer, memoryview)
            offset += max(1, len(answer) // BATCH_BYTES) * records_in_batch
    return watch


def _result(load: str, disk: str, count: int, watch: Stopwatch) -> Throughput:
    gigabytes = count * BATCH_BYTES / GIGABYTE
    return Throughput(load, disk, gigabytes, gigabytes / watch.seconds, watch.cpu_seconds / gigabytes)
