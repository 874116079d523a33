"""Carry out effects on a disk, by direct calls that may block: the work of an IO worker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias, assert_never

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange
from barnabas.wire.record_batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, BatchHeader, parse_header
from barnabas_logstore.core.storage.batches.batch_opening import first_record_of, open_batch
from barnabas_logstore.core.storage.batches.record_timestamps import read_timestamps
from barnabas_logstore.core.storage.copying import copy_files
from barnabas_logstore.core.storage.effect_results import (
    DONE,
    FoundAborted,
    FoundBatches,
    LargestTimestamps,
    NotFound,
    OffsetAtTimestamp,
    OpenedSegment,
    RecordTimestamps,
    Refusal,
    VolumeSpace,
)
from barnabas_logstore.core.storage.effects import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    CopyEffect,
    DeleteDirectoryEffect,
    DeleteFilesEffect,
    DropCleanedEffect,
    FindAbortedEffect,
    FindRecordEffect,
    FindTimestampsEffect,
    FlushEffect,
    MovedEffect,
    OpenSegmentEffect,
    ProbeEffect,
    ReadBatchesEffect,
    ReadEffect,
    ReadTimestampsEffect,
    ReplaceEffect,
    RetireEffect,
    SpaceEffect,
    StorageEffect,
    SwapEffect,
    TakeBackEffect,
    TruncateEffect,
    ValidateBatchEffect,
    VolumeFlushEffect,
    WriteEffect,
)
from barnabas_logstore.core.storage.file_parts import FilePart, UnopenedFile
from barnabas_logstore.core.storage.flushing import flush, flush_together
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.recovery.log_cut import cut_log
from barnabas_logstore.core.storage.recovery.producer_recovery import load_producers_as_of
from barnabas_logstore.core.storage.segment.opening import find_timestamps, open_part, open_segment
from barnabas_logstore.core.storage.segment.transaction_index import find_aborted

# As much as a large write: where less than that is free, the next ones would fail again.
PROBE_BYTES = 8 * 1024 * 1024
PROBE_FILE = "room-probe.tmp"

ReadAt: TypeAlias = Callable[[int, int], memoryview]
"""Returns so many bytes of the file at a position: fewer only if the file ends. May raise, to give the work up."""

LoadAt: TypeAlias = Callable[[int, int], int]
"""Has so many bytes of the file at a position in memory; returns how many there are. May raise as well."""

WINDOW_BYTES_MIN = 4096
WINDOW_BYTES_MAX = 64 * 1024

_NOTHING: Final = memoryview(b"")

EffectResult = (
    bytes
    | memoryview
    | FoundAborted
    | FoundBatches
    | LargestTimestamps
    | OpenedSegment
    | NotFound
    | Refusal
    | OffsetAtTimestamp
    | RecordTimestamps
    | LogState
    | ProducerState
    | VolumeSpace
    | None
)
"""The result of any effect; that of each kind has the type of its `result`."""


class CachedFile(Protocol):
    """The part of a file that is in the page cache: whatever is not raises BlockingIOError."""

    def read_at(self, position: int, length: int) -> memoryview: ...

    def load_at(self, position: int, length: int) -> int: ...


def failed_by_fault(effect: StorageEffect, fault: Exception) -> Refusal | DiskError:
    """Return the outcome of an effect that hit an internal error of Barnabas, an unexpected exception.

    What is on disk then is unknown, and whatever waits for it has to be answered: the log directory goes offline, as
    after an I/O error, and others lead its partitions. Work on a batch has touched no disk: only its request fails
    (UNKNOWN_SERVER_ERROR, as in Kafka), because otherwise a batch that triggers the error would take every replica's
    disk offline.
    """
    match effect:
        case ValidateBatchEffect() | FindRecordEffect() | ReadTimestampsEffect():
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
            return effect.result.of(memoryview(disk.read_at(effect.file, effect.position, effect.length)))
        case ReadBatchesEffect():
            part = open_part(disk, effect.part, effect.offset)
            if part is None:
                return effect.result.of(NotFound.NO_FILE)
            file = part.file
            assert not isinstance(file, UnopenedFile)
            return read_batches(
                effect,
                part,
                lambda position, length: memoryview(disk.read_at(file, position, length)),
                partial(disk.load, file),
            )
        case FindAbortedEffect():
            return effect.result.of(find_aborted(disk, effect))
        case FindTimestampsEffect():
            return effect.result.of(find_timestamps(disk, effect))
        case OpenSegmentEffect():
            return effect.result.of(open_segment(disk, effect))
        case FindRecordEffect():
            found = first_record_of(
                effect.header,
                memoryview(effect.batch),
                effect.timestamp_ms,
                effect.from_offset,
                effect.decompress,
                or_largest=effect.or_largest,
            )
            return effect.result.of(found)
        case ReadTimestampsEffect():
            read_at = partial(disk.read_at, effect.file)
            read = read_timestamps(read_at, effect.position, effect.end_position, effect.decompress)
            return effect.result.of(read)
        case ValidateBatchEffect():
            validated = open_batch(
                memoryview(effect.records), effect.topic_partition, effect.config, effect.wall_ms, effect.codecs
            )
            return effect.result.of(validated)
        case WriteEffect():
            for path in effect.creates:
                disk.truncate(disk.open(path, create=True), 0)
            disk.write_at(disk.open(effect.path), effect.position, effect.buffers)
            for write in effect.index_writes:
                disk.write_at(disk.open(write.path, create=write.creates), write.position, (write.content,))
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
            return effect.result.of(VolumeSpace(*disk.space(effect.log_directory)))
        case DeleteFilesEffect():
            for path in effect.paths:
                _unless_gone(disk.remove, path)
        case DeleteDirectoryEffect():
            for entry in disk.list(effect.path):
                disk.remove(f"{effect.path}/{entry.name}")
            disk.remove_directory(effect.path)
        case _:
            assert_never(effect)
    return DONE


def execute_in_place(effect: ReadEffect | ReadBatchesEffect, cached: CachedFile) -> EffectResult:
    """Carry out a read of a file in the page cache: what `execute` returns. Raises BlockingIOError if it would wait."""
    if isinstance(effect, ReadEffect):
        return effect.result.of(cached.read_at(effect.position, effect.length))
    return read_batches(effect, effect.part, cached.read_at, cached.load_at)


def _retire(disk: Disk, effect: RetireEffect) -> None:
    # The new first segment may be so recent that its name is not durable yet.
    disk.flush_directory(effect.directory)
    for paths in effect.segments:
        for path in paths:
            _unless_gone(disk.rename, path, path + DELETED_SUFFIX)
        disk.flush_directory(effect.directory)


def _take_back(disk: Disk, effect: TakeBackEffect) -> ProducerState | None:
    for path, byte_count in effect.cuts:
        # The failed write may not have created the files of its segment.
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
    """Ignore missing files: many of them exist only sometimes, such as snapshots and indexes of transactions."""
    try:
        operation(*arguments)
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise


def read_batches(
    effect: ReadBatchesEffect, part: FilePart, read_at: ReadAt, load_at: LoadAt
) -> FoundBatches | NotFound:
    """Return the batches that the effect describes, of `part`, the file of which is open.

    From an index entry on, batches are passed over by their headers. For large batches that is one or two of them, for
    small ones a part of the file that is about as long as the index interval. A file that is shorter than the log knows
    has been cut by another program: nothing is returned of what it lacks.
    """
    position, end_position = part.position, part.end_position
    window = _Window(read_at, end_position)
    while True:
        if position + HEADER_BYTES > end_position:
            return NotFound.PAST_THE_END if position == end_position else NotFound.NO_BATCH
        header = window.header_at(position)
        if header is None:
            return FoundBatches(-1, _NOTHING)
        if header.last_offset >= effect.offset:
            break
        if header.size_bytes < HEADER_BYTES:
            return NotFound.NO_BATCH
        position += header.size_bytes
    size = header.size_bytes
    if size < HEADER_BYTES or position + size > end_position:
        return NotFound.NO_BATCH
    length = min(effect.max_bytes, end_position - position)
    if part.limit_offset >= 0:
        length = min(length, _end_below_limit(part, window, position, length) - position)
    if length < size:
        if not effect.min_one_batch:
            return FoundBatches(position, _NOTHING)
        length = size
    if 0 < effect.range_bytes_min <= length:
        assert not isinstance(part.file, UnopenedFile)
        length = load_at(position, length)
        return FoundBatches(position, FileRange(part.file, position, length) if length >= size else _NOTHING)
    records = window.bytes_at(position, length)
    return FoundBatches(position, records if len(records) >= size else _NOTHING)


def _end_below_limit(part: FilePart, window: _Window, start: int, length: int) -> int:
    """Return where the batches below `limit_offset` end; anything past `length` if that is not before."""
    position = max(start, part.limit_position)
    while position < start + length and position + HEADER_BYTES <= part.end_position:
        header = window.header_at(position)
        if header is None or header.base_offset >= part.limit_offset:
            break
        position += max(header.size_bytes, LENGTH_OVERHEAD_BYTES)
    return position


class _Window:
    """The part of the file that was read last."""

    __slots__ = ("_byte_count", "_bytes", "_end_position", "_read_at", "_start")

    def __init__(self, read_at: ReadAt, end_position: int) -> None:
        self._read_at = read_at
        self._end_position = end_position
        self._start = 0
        self._bytes = _NOTHING
        self._byte_count = WINDOW_BYTES_MIN

    def header_at(self, position: int) -> BatchHeader | None:
        """Return the header at `position`, which ends before `end_position`; None if the file ends before."""
        index = position - self._start
        if index < 0 or index + HEADER_BYTES > len(self._bytes):
            self._bytes = self._read_at(position, min(self._byte_count, self._end_position - position))
            self._start, index = position, 0
            # Many headers in a row are found when an index entry is missing: then larger parts are cheaper.
            self._byte_count = min(2 * self._byte_count, WINDOW_BYTES_MAX)
            if len(self._bytes) < HEADER_BYTES:
                return None
        return parse_header(self._bytes, index)

    def bytes_at(self, position: int, length: int) -> memoryview:
        index = position - self._start
        if index >= 0 and index + length <= len(self._bytes):
            return self._bytes[index : index + length]
        return self._read_at(position, length)
