"""Logs to measure: batches, directories, and a disk that does nothing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Self

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Buffer, DiskFile
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import OpenedLog, open_log
from barnabas_logstore.shell.posix_disk import PosixDisk

GIGABYTE: Final = 1_000_000_000
BATCH_BYTES: Final = 1_000_000
WALL_MS: Final = 1_700_000_000_000
TOPIC_PARTITION: Final = ("bench", 0)
_RECORD_BYTES: Final = 1000
_DIFFERENT_BATCHES: Final = 32
"""Together more than a core's caches hold, so that checksums read from memory as they do in a broker."""


class NullDisk(PosixDisk):
    """Takes every write of a log's batches at once, and keeps none: what is left is the log's own work."""

    def write_at(self, file: DiskFile, position: int, buffers: Sequence[Buffer]) -> None:
        if not file.path.endswith(".log"):
            super().write_at(file, position, buffers)


@dataclass(slots=True)
class Stopwatch:
    """Wall and CPU time, of this process, between entry and exit."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __enter__(self) -> Self:
        self.seconds, self.cpu_seconds = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu_seconds += time.process_time()


def batches() -> list[memoryview]:
    """Batches of 1 MB in records of 1 KB, uncompressed."""
    random = Random(1)
    count = BATCH_BYTES // _RECORD_BYTES
    made = []
    for _ in range(_DIFFERENT_BATCHES):
        value = random.randbytes(_RECORD_BYTES - 14)
        made.append(memoryview(build_batch([Record(None, value, WALL_MS + index) for index in range(count)])))
    return made


def open_bench_log(disk: PosixDisk, directory: Path, *, recovery_point: int = 0, is_clean: bool = False) -> OpenedLog:
    directory.mkdir(parents=True, exist_ok=True)
    config = TopicConfig()
    return open_log(
        disk, str(directory), TOPIC_PARTITION, config, recovery_point=recovery_point, shut_down_cleanly=is_clean
    )


def append(disk: PosixDisk, log: PartitionLog, records: memoryview) -> None:
    """One batch, written. Flushes of closed segments wait: they are the disk's speed."""
    outcome = log.append(records, 0, WALL_MS, None)
    assert isinstance(outcome, AppendOutcome), outcome
    effect = log.begin_write()
    assert effect is not None
    execute(disk, effect)
    log.on_written(effect)


def flush(disk: PosixDisk, log: PartitionLog) -> None:
    while (effect := log.begin_due_flush(0)) is not None:
        execute(disk, effect)
        log.on_flushed(effect)


def open_directory(disk: PosixDisk, path: Path) -> LogDirectory:
    directory = LogDirectory.open(
        disk,
        str(path),
        cluster_id="bench",
        node_id=0,
        kernel_boot_id="boot",
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )
    assert isinstance(directory, LogDirectory)
    return directory


def forget_pages(path: Path) -> None:
    """Have what is durable of a directory's files leave the page cache."""
    for file in path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def room_for(path: Path, byte_count: int) -> bool:
    """Whether a disk has twice as much."""
    return shutil.disk_usage(path).free > 2 * byte_count
