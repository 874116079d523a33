"""What a log wants done to the disk on the hot path, as data.

The core never waits for bytes: it hands out an effect, an IO worker runs `execute`, and the core hears of the outcome
in a later step. The simulation runs the same effects, and delays, fails or tears them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, assert_never

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.compression import Codecs, Decompress
from barnabas.ports.disk import Buffer, Disk, DiskError, DiskErrorKind, DiskFile
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import BatchHeader
from services.logstore.core.storage.batch_opening import Refusal, open_batch
from services.logstore.core.storage.batch_search import OffsetAtTimestamp, first_record_of
from services.logstore.core.storage.copying import copy_files
from services.logstore.core.storage.flushing import flush, flush_together

# Made by `Segment.mark`: bytes, bytes since the last index entry, largest timestamp with its offset, first timestamp,
# whether the indexes are full, entries of both.
SegmentMark = tuple[int, int, tuple[int, int] | None, int, bool, int, int]

if TYPE_CHECKING:
    from services.logstore.core.storage.log import PartitionLog
    from services.logstore.core.storage.producer_state import ProducerState
    from services.logstore.core.storage.segment import Segment


class Cut(Protocol):
    """Of `truncation`, which knows how logs are opened, as this file can't."""

    def run(self, disk: Disk) -> PartitionLog: ...


@dataclass(slots=True, frozen=True)
class SmallWrite:
    """A few bytes beside the log: the new entries of an index."""

    path: str
    position: int
    content: bytes


@dataclass(slots=True, frozen=True)
class NewFile:
    """A small file whose name is not read before it is durable: a snapshot of the producers."""

    path: str
    content: bytes


@dataclass(slots=True, frozen=True)
class FileReplacement:
    path: str
    content: bytes


@dataclass(slots=True, eq=False)
class FlushEffect:
    """Make everything below `upto_offset` durable. In this order: replacements, new files, small writes, then the
    flushes of files, then those of directories.

    `files` are paths, new files among them.
    """

    log: PartitionLog
    upto_offset: int
    replacements: list[FileReplacement] = field(default_factory=list)
    new_files: list[NewFile] = field(default_factory=list)
    writes: list[SmallWrite] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    closed_segments: list[Segment] = field(default_factory=list)
    """Those that are durable as a whole, indexes and all, once this has run."""


@dataclass(slots=True, eq=False)
class VolumeFlushEffect:
    """Carry out the flushes of many logs of one directory at once, by flushing its volume (`Disk.is_one_volume`): at a
    clean stop thousands of logs have to be durable, of five files each.
    """

    log_directory: str
    flushes: list[FlushEffect]


@dataclass(slots=True, eq=False)
class WriteEffect:
    """Append `buffers` to one segment's file: every batch that gathered while the last write was under way.

    `tokens` are the callers' own, one per append, in order. With `flush` the write counts only once that has run too
    (flush.messages): then the topic promises that what is acknowledged is on the disk.
    """

    log: PartitionLog
    segment: Segment
    path: str
    position: int
    end_offset: int
    mark: SegmentMark
    """What the segment was before the first of these batches."""
    buffers: list[Buffer] = field(default_factory=list)
    byte_count: int = 0
    creates: list[str] = field(default_factory=list)
    """The files of the segment, when this is the first write to it: they are made, empty."""
    tokens: list[object] = field(default_factory=list)
    index_writes: list[SmallWrite] = field(default_factory=list)
    flush: FlushEffect | None = None


@dataclass(slots=True, eq=False)
class ReadEffect:
    """Read `length` bytes at `position`; answered with fewer only where the file ends."""

    log: PartitionLog
    file: DiskFile
    position: int
    length: int


@dataclass(slots=True, eq=False)
class FindRecordEffect:
    """Open a batch that has been read, and find its first record at or after a time. No disk, but work for a worker."""

    log: PartitionLog
    header: BatchHeader
    batch: bytes
    timestamp_ms: int
    from_offset: int
    decompress: Decompress
    found: OffsetAtTimestamp | None = None
    """The outcome: None when every record from `from_offset` on is earlier."""
    has_failed: bool = False


@dataclass(slots=True, eq=False)
class OpenBatchEffect:
    """Look into a client's batch, and give it its topic's codec. No disk, but work for a worker."""

    records: memoryview
    topic_partition: str
    config: TopicConfig
    wall_ms: int
    codecs: Codecs
    outcome: memoryview | Refusal | None = None


@dataclass(slots=True, eq=False)
class ReplaceEffect:
    """Put a checkpoint in place."""

    replacement: FileReplacement


@dataclass(slots=True, eq=False)
class RetireEffect:
    """Rename the files of segments that are not in the log any more, so that a start takes them for what they are.

    `segments` are their files, oldest first, and each segment is gone for good before the next one is touched: a crash
    may leave any number of them, but never a gap. The files are removed later (`DeleteFilesEffect`).
    """

    log: PartitionLog
    directory: str
    segments: list[list[str]]

    @property
    def retired_paths(self) -> list[str]:
        return [path + DELETED_SUFFIX for paths in self.segments for path in paths]


@dataclass(slots=True, eq=False)
class DeleteFilesEffect:
    """Remove files; those that are gone already, with their directory for all we know, are as good."""

    log_directory: str
    paths: list[str]


@dataclass(slots=True, eq=False)
class TakeBackEffect:
    """Undo what a write left behind that found no room: cut files, durably; see `log_room`."""

    log: PartitionLog
    cuts: list[tuple[str, int]]
    """(path, bytes to keep), of files that may not be there."""
    load_producers: Callable[[Disk], ProducerState] | None = None
    """Where producers had batches that are taken back."""
    producers: ProducerState | None = None
    """The outcome: the producers as of the log's end."""


@dataclass(slots=True, eq=False)
class CopyEffect:
    """A step of a log's way to another log directory; see `log_copy`. In the order of the fields, as far as given.

    Files that are not there any more are passed over: of a segment that was retired or compacted meanwhile, which the
    next step notices.
    """

    log: PartitionLog
    log_directory: str
    future: str
    forgets: str = ""
    """A file that is removed, durably."""
    makes: tuple[str, bytes] | None = None
    """The directory is made, with this file."""
    pieces: list[tuple[str, str, int, int]] = field(default_factory=list)
    """(source, target, position, length)"""
    files: list[tuple[str, str]] = field(default_factory=list)
    """(source, target), whole: small ones."""
    flushes: list[str] = field(default_factory=list)
    keeps: list[str] | None = None
    """Every other name in the directory is removed."""
    final: str = ""
    """The name that the directory gets, durably."""


@dataclass(slots=True, eq=False)
class MovedEffect:
    """A log has been moved: make it last that it is no longer in its old log directory, then forget that it was."""

    log: PartitionLog
    old_log_directory: str
    marker: str


@dataclass(slots=True, eq=False)
class SpaceEffect:
    """How much room the volume of a log directory has."""

    log_directory: str
    total_bytes: int = -1
    usable_bytes: int = -1
    is_done: bool = False
    has_failed: bool = False


@dataclass(slots=True, eq=False)
class TruncateEffect:
    """Cut a log: see `truncation`."""

    log: PartitionLog
    cut: Cut
    opened: PartitionLog | None = None
    """The outcome: what the log is from then on."""


@dataclass(slots=True, eq=False)
class ProbeEffect:
    """Find out whether a log directory has room again: it has when this succeeds."""

    log_directory: str


class Rename(NamedTuple):
    """Of a file, by its names in the directory."""

    source: str
    target: str
    may_be_absent: bool


@dataclass(slots=True, eq=False)
class SwapEffect:
    """Put a cleaned segment in the place of others. Each phase is durable before the next one begins: see
    `compaction.swap`.
    """

    log: PartitionLog
    directory: str
    segment: Segment
    phases: list[list[Rename]]

    @property
    def replaced_paths(self) -> list[str]:
        """Where the old files are in the end."""
        renames = [rename for phase in self.phases for rename in phase]
        return [f"{self.directory}/{rename.target}" for rename in renames if rename.target.endswith(DELETED_SUFFIX)]


@dataclass(slots=True, eq=False)
class DropCleanedEffect:
    """Remove what a pass that was aborted has written and nobody has taken over."""

    log: PartitionLog
    directory: str


@dataclass(slots=True, eq=False)
class DeleteDirectoryEffect:
    """Remove a directory and the files in it."""

    path: str


DELETED_SUFFIX = ".deleted"
# As much as a large write: where less than that is free, the next ones would fail again.
PROBE_BYTES = 8 * 1024 * 1024
PROBE_FILE = "room-probe.tmp"
CLEANED_SUFFIX = ".cleaned"

StorageEffect = (
    WriteEffect
    | ReadEffect
    | FindRecordEffect
    | OpenBatchEffect
    | FlushEffect
    | VolumeFlushEffect
    | ReplaceEffect
    | RetireEffect
    | SwapEffect
    | DropCleanedEffect
    | TakeBackEffect
    | TruncateEffect
    | ProbeEffect
    | SpaceEffect
    | CopyEffect
    | MovedEffect
    | DeleteFilesEffect
    | DeleteDirectoryEffect
)


def failed_by_fault(effect: StorageEffect, fault: Exception) -> bytes | DiskError:
    """The outcome of an effect in which a fault of ours showed, an exception that no one expects there.

    What is on disk then is unknown, and whoever waits for it has to hear something: the log directory goes offline, as
    after an I/O error, and others lead its partitions. Work on a batch has touched no disk: only its request fails
    (UNKNOWN_SERVER_ERROR, as in Kafka), or a batch that brings the fault to light would take every replica's disk.
    """
    match effect:
        case OpenBatchEffect():
            effect.outcome = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
            return b""
        case FindRecordEffect():
            effect.has_failed = True
            return b""
        case FlushEffect() | VolumeFlushEffect() | WriteEffect(flush=FlushEffect()):
            operation = "flush"
        case _:
            operation = type(effect).__name__
    return DiskError(DiskErrorKind.IO, operation, f"{type(fault).__name__}: {fault}")


def execute(disk: Disk, effect: StorageEffect) -> bytes:
    """Run one effect; the bytes of a read, nothing of the others. Raises DiskError."""
    match effect:
        case ReadEffect():
            return disk.read_at(effect.file, effect.position, effect.length)
        case FindRecordEffect():
            effect.found = first_record_of(
                effect.header, effect.batch, effect.timestamp_ms, effect.from_offset, effect.decompress
            )
        case OpenBatchEffect():
            effect.outcome = open_batch(
                effect.records, effect.topic_partition, effect.config, effect.wall_ms, effect.codecs
            )
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
            _take_back(disk, effect)
        case TruncateEffect():
            effect.opened = effect.cut.run(disk)
        case ProbeEffect():
            _probe(disk, f"{effect.log_directory}/{PROBE_FILE}")
        case CopyEffect():
            copy_files(disk, effect)
        case MovedEffect():
            disk.flush_directory(effect.old_log_directory)
            _unless_gone(disk.remove, effect.marker)
        case SpaceEffect():
            effect.total_bytes, effect.usable_bytes = disk.space(effect.log_directory)
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


def _take_back(disk: Disk, effect: TakeBackEffect) -> None:
    for path, byte_count in effect.cuts:
        # The failed write may not have come to making the files of its segment.
        if disk.exists(path):
            file = disk.open(path)
            disk.truncate(file, byte_count)
            disk.flush(file)
    if effect.load_producers is not None:
        effect.producers = effect.load_producers(disk)


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
