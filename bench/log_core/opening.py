"""Opening: recovery of a log that was not shut down cleanly beside the speed of its disk, and many clean partitions."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.shell.posix_disk import PosixDisk
from bench.log_core.logs import (
    BATCH_BYTES,
    GIGABYTE,
    WALL_MS,
    Stopwatch,
    append,
    batches,
    flush,
    forget_pages,
    open_bench_log,
    open_directory,
)

_READ_BYTES: Final = 1 << 20
_BATCHES_PER_PARTITION: Final = 3


@dataclass(slots=True)
class Recovery:
    """Of one log, once: cold from the disk (its pages were dropped), or warm from the page cache."""

    gigabytes: float
    is_cold: bool
    disk_gigabytes_per_second: float
    """Of reading the same files from end to end in 1 MiB pieces, as `cat` does, a moment before."""
    gigabytes_per_second: float
    cpu_seconds_per_gigabyte: float


@dataclass(slots=True)
class CleanStart:
    partitions: int
    seconds: float
    cpu_seconds: float


def measure_recovery(path: Path, gigabytes: float, rounds: int) -> list[Recovery]:
    directory = path / "recovery-0"
    disk = PosixDisk()
    log = open_bench_log(disk, directory).log
    records = batches()
    for number in range(int(gigabytes * GIGABYTE / BATCH_BYTES)):
        append(disk, log, records[number % len(records)])
        flush(disk, log)
    end_offset = log.log_end_offset
    del log
    results = []
    for _ in range(rounds):
        for is_cold in (True, False):
            results.append(_recover(directory, end_offset, is_cold))
    shutil.rmtree(directory)
    return results


def _recover(directory: Path, end_offset: int, is_cold: bool) -> Recovery:
    if is_cold:
        forget_pages(directory)
    with Stopwatch() as reading:
        byte_count = sum(_read_through(file) for file in sorted(directory.glob("*.log")))
    if is_cold:
        forget_pages(directory)
    with Stopwatch() as recovering:
        opened = open_bench_log(PosixDisk(), directory)
    assert opened.log.log_end_offset == end_offset
    assert opened.scanned_bytes == byte_count
    size = byte_count / GIGABYTE
    return Recovery(size, is_cold, size / reading.seconds, size / recovering.seconds, recovering.cpu_seconds / size)


def _read_through(file: Path) -> int:
    total = 0
    buffer = bytearray(_READ_BYTES)
    descriptor = os.open(file, os.O_RDONLY)
    while count := os.readv(descriptor, [buffer]):
        total += count
    os.close(descriptor)
    return total


def measure_clean_start(path: Path, partitions: int, rounds: int) -> list[CleanStart]:
    """A directory of so many partitions, each with a few batches of an idempotent producer, opened again and again."""
    root = path / "clean"
    disk = PosixDisk()
    directory = open_directory(disk, root)
    directory.load(lambda topic: TopicConfig(), 0)
    for number in range(partitions):
        log = directory.create(("bench", number), bytes(16), TopicConfig())
        assert isinstance(log, PartitionLog)
        for sequence in range(_BATCHES_PER_PARTITION):
            record = Record(b"key", b"value" * 20, WALL_MS)
            append(
                disk,
                log,
                memoryview(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence)),
            )
    _shut_down(disk, directory)
    results = []
    for _ in range(rounds):
        with Stopwatch() as watch:
            directory = open_directory(disk, root)
            found = directory.load(lambda topic: TopicConfig(), 0)
        assert directory.was_shut_down_cleanly
        assert len(found) == partitions
        assert all(each.opened.log.log_end_offset == _BATCHES_PER_PARTITION for each in found)
        del found
        results.append(CleanStart(partitions, watch.seconds, watch.cpu_seconds))
        _shut_down(disk, directory)
    shutil.rmtree(root)
    return results


def _shut_down(disk: PosixDisk, directory: object) -> None:
    from barnabas_logstore.core.storage.directories.log_directory import LogDirectory

    assert isinstance(directory, LogDirectory)
    for closing in directory.closing_flushes():
        execute(disk, closing.effect)
        for log, effect in closing.flushes:
            log.on_flushed(effect)
    ends = {key: log.log_end_offset for key, log in directory.logs.items()}
    assert directory.shut_down(ends, broker_epoch=1)
