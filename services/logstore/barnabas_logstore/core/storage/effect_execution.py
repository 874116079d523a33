"""Carries out effects on a disk, by direct calls that take as long as the disk likes: the work of an IO worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.batches.batch_opening import Refusal, open_batch
from barnabas_logstore.core.storage.batches.batch_search import OffsetAtTimestamp, first_record_of
from barnabas_logstore.core.storage.copying import copy_files
from barnabas_logstore.core.storage.effects import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    CopyEffect,
    DeleteDirectoryEffect,
    DeleteFilesEffect,
    DropCleanedEffect,
    FindRecordEffect,
    FlushEffect,
    MovedEffect,
    ProbeEffect,
    ReadEffect,
    ReplaceEffect,
    RetireEffect,
    SpaceEffect,
    StorageEffect,
    SwapEffect,
    TakeBackEffect,
    TruncateEffect,
    ValidateBatchEffect,
    VolumeFlushEffect,
    VolumeSpace,
    WriteEffect,
)
from barnabas_logstore.core.storage.flushing import flush, flush_together
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.recovery.log_cut import cut_log
from barnabas_logstore.core.storage.recovery.producer_recovery import load_producers_as_of

# As much as a large write: where less than that is free, the next ones would fail again.
PROBE_BYTES = 8 * 1024 * 1024
PROBE_FILE = "room-probe.tmp"

EffectResult = bytes | memoryview | Refusal | OffsetAtTimestamp | LogState | ProducerState | VolumeSpace | None
"""What an effect that was carried out gives to the one who asked for it: see each effect. Most give nothing (b"")."""


def failed_by_fault(effect: StorageEffect, fault: Exception) -> Refusal | DiskError:
    """Return the outcome of an effect in which a fault of Barnabas showed, an exception that is not expected there.

    What is on disk then is unknown, and whatever waits for it has to be answered: the log directory goes offline, as
    after an I/O error, and others lead its partitions. Work on a batch has touched no disk: only its request fails
    (UNKNOWN_SERVER_ERROR, as in Kafka), or a batch that brings the fault to light would take every replica's disk.
    """
    match effect:
        case ValidateBatchEffect() | FindRecordEffect():
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        case FlushEffect() | VolumeFlushEffect() | WriteEffect(flush=FlushEffect()):
            operation = "flush"
        case _:
            operation = type(effect).__name__
    return DiskError(DiskErrorKind.IO, operation, f"{type(fault).__name__}: {fault}")


def execute(disk: Disk, effect: StorageEffect) -> EffectResult:
    """Carry out one effect, and return its result. Raises DiskError."""
    match effect:
        case ReadEffect():
            return disk.read_at(effect.file, effect.position, effect.length)
        case FindRecordEffect():
            return first_record_of(
                effect.header, effect.batch, effect.timestamp_ms, effect.from_offset, effect.decompress
            )
        case ValidateBatchEffect():
            return open_batch(effect.records, effect.topic_partition, effect.config, effect.wall_ms, effect.codecs)
        case WriteEffect():
            for path in effect.creates:
                disk.truncate(disk.open(path, create=True), 0)
            disk.write_at(disk.open(effect.path), effect.position, effect.buffers)
            for write in effect.index_writes:
                disk.write_at(disk.open(write.path), write.position, (write.content,))
            if effect.flush is not None:
                flush(disk, effect.flush)
        case FlushEffect():
            flush(disk, effect)
        case VolumeFlushEffect():
            flush_together(disk, effect)
        case ReplaceEffect():
            disk.replace_file(effect.replacement.path, effect.replacement.content)
        case RetireEffect():
            _retire(disk, effect)
        case SwapEffect():
            _swap(disk, effect)
        case DropCleanedEffect():
            _unless_gone(_drop_cleaned, disk, effect.directory)
        case TakeBackEffect():
            return _take_back(disk, effect)
        case TruncateEffect():
            return cut_log(disk, effect)
        case ProbeEffect():
            _probe(disk, f"{effect.log_directory}/{PROBE_FILE}")
        case CopyEffect():
            copy_files(disk, effect)
        case MovedEffect():
            disk.flush_directory(effect.old_log_directory)
            _unless_gone(disk.remove, effect.marker)
        case SpaceEffect():
            return VolumeSpace(*disk.space(effect.log_directory))
        case DeleteFilesEffect():
            for path in effect.paths:
                _unless_gone(disk.remove, path)
        case DeleteDirectoryEffect():
            for entry in disk.list(effect.path):
                disk.remove(f"{effect.path}/{entry.name}")
            disk.remove_directory(effect.path)
        case _:
            assert_never(effect)
    return b""


def _retire(disk: Disk, effect: RetireEffect) -> None:
    # The segment that is the first one from now on may be so new that its name is not durable yet.
    disk.flush_directory(effect.directory)
    for paths in effect.segments:
        for path in paths:
            _unless_gone(disk.rename, path, path + DELETED_SUFFIX)
        disk.flush_directory(effect.directory)


def _take_back(disk: Disk, effect: TakeBackEffect) -> ProducerState | None:
    for path, byte_count in effect.cuts:
        # The failed write may not have come to making the files of its segment.
        if disk.exists(path):
            file = disk.open(path)
            disk.truncate(file, byte_count)
            disk.flush(file)
    return None if effect.producers is None else load_producers_as_of(disk, effect.producers)


def _probe(disk: Disk, path: str) -> None:
    try:
        disk.write_at(disk.open(path, create=True), 0, (bytes(PROBE_BYTES),))
    finally:
        _unless_gone(disk.remove, path)


def _swap(disk: Disk, effect: SwapEffect) -> None:
    for renames in effect.phases:
        for source, target, may_be_absent in renames:
            paths = f"{effect.directory}/{source}", f"{effect.directory}/{target}"
            if may_be_absent:
                _unless_gone(disk.rename, *paths)
            else:
                disk.rename(*paths)
        disk.flush_directory(effect.directory)


def _drop_cleaned(disk: Disk, directory: str) -> None:
    for entry in disk.list(directory):
        if entry.name.endswith(CLEANED_SUFFIX):
            disk.remove(f"{directory}/{entry.name}")


def _unless_gone(operation: Callable[..., None], *arguments: object) -> None:
    """Many of the files are only there sometimes: snapshots, indexes of transactions."""
    try:
        operation(*arguments)
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
