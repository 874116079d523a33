"""The effects of a log on the disk, as data: paths, positions and bytes, nothing of the log itself.

The core never waits for bytes: it returns an effect, an IO worker carries it out (`effect_execution`), and the core
gets the result in a later step. The simulation carries out the same effects, and delays, fails or tears them. What
follows an effect is not part of it: see `Outbox.add_effect`. `result` is the type of its result: see `effect_results`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.compression import Codecs, Decompress
from barnabas.ports.disk import Buffer, DiskFile
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.effect_results import (
    IS_DONE,
    FoundAborted,
    FoundBatches,
    LargestTimestamps,
    NotFound,
    OffsetAtTimestamp,
    OpenedSegment,
    RecordTimestamps,
    Refusal,
    Result,
    VolumeSpace,
)
from barnabas_logstore.core.storage.file_parts import FilePart


@dataclass(slots=True, frozen=True)
class SmallWrite:
    """A few bytes beside the log: the new entries of an index. `creates`: the file may not exist yet."""

    path: str
    position: int
    content: bytes
    creates: bool = False


@dataclass(slots=True, frozen=True)
class NewFile:
    """A small file that is not read under its name before it is durable: a snapshot of the producers."""

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

    `directory` is that of the log. `files` are paths, new files among them.
    """

    result: ClassVar[Result[bytes]] = IS_DONE

    directory: str
    upto_offset: int
    replacements: list[FileReplacement] = field(default_factory=list)
    new_files: list[NewFile] = field(default_factory=list)
    writes: list[SmallWrite] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class VolumeFlushEffect:
    """Carry out the flushes of many logs of one directory at once, by flushing its volume (`Disk.is_one_volume`): at a
    clean stop thousands of logs have to be made durable, with five files each.
    """

    result: ClassVar[Result[bytes]] = IS_DONE

    log_directory: str
    flushes: list[FlushEffect]


@dataclass(slots=True, eq=False)
class WriteEffect:
    """Append `buffers` to one segment's file: every batch that accumulated while the last write was in progress.

    `directory` is that of the log, `path` that of the segment's file. The log ends at `end_offset` then. With `flush`
    the write counts only once that has been carried out too (flush.messages): then the topic guarantees that
    acknowledged records are on the disk.
    """

    result: ClassVar[Result[bytes]] = IS_DONE

    directory: str
    path: str
    position: int
    end_offset: int
    buffers: list[Buffer] = field(default_factory=list)
    byte_count: int = 0
    creates: list[str] = field(default_factory=list)
    """The files of the segment, if this is the first write to it: they are created empty."""
    index_writes: list[SmallWrite] = field(default_factory=list)
    flush: FlushEffect | None = None


@dataclass(slots=True, eq=False)
class ReadEffect:
    """Read `length` bytes at `position`; the result is shorter only if the file ends."""

    result: ClassVar[Result[memoryview]] = Result(memoryview)

    file: DiskFile
    position: int
    length: int


@dataclass(slots=True, eq=False)
class ReadBatchesEffect:
    """Find the batch in `part` that contains `offset`, or the first one after it, and read `max_bytes` from there on.

    If that batch is larger than `max_bytes`, `min_one_batch` says whether it or nothing is returned. From
    `range_bytes_min` on, unless that is 0, records are returned as a range of the file, and are in the page cache
    then.

    Result: `FoundBatches`, or why there are none: NO_FILE only if the file was not open.
    """

    result: ClassVar[Result[FoundBatches | NotFound]] = Result(FoundBatches, NotFound)

    part: FilePart
    offset: int
    max_bytes: int
    min_one_batch: bool
    range_bytes_min: int = 0


@dataclass(slots=True, frozen=True)
class EndOfRecords:
    """Where records end in a segment's file of `byte_count` bytes; its offset index says which offset that is."""

    index_path: str
    base_offset: int
    byte_count: int
    position: int


@dataclass(slots=True, eq=False)
class FindAbortedEffect:
    """Read indexes of aborted transactions, in the order of their segments: those with markers at `from_offset` or
    later that begin below `upto_offset`, or below `end` if that is earlier. No file behind the one from which on no
    transaction began that early is read.
    """

    result: ClassVar[Result[FoundAborted]] = Result(FoundAborted)

    paths: list[str]
    from_offset: int
    upto_offset: int
    end: EndOfRecords | None


@dataclass(slots=True, frozen=True)
class ClosedTimeIndex:
    """The file of a segment's time index that has all entries; the segment has `log_bytes`."""

    path: str
    base_offset: int
    log_bytes: int


@dataclass(slots=True, eq=False)
class FindTimestampsEffect:
    """Find the largest timestamps of segments, in their time indexes."""

    result: ClassVar[Result[LargestTimestamps]] = Result(LargestTimestamps)

    indexes: list[ClosedTimeIndex]


@dataclass(slots=True, eq=False)
class OpenSegmentEffect:
    """Open the file of a segment, and find a position before its first batch that has a record from `from_offset` on,
    at or after `timestamp_ms`.

    `time_index` and `index_path` name its indexes; None: `position` is known. Result: None if a file is missing, or an
    index can't be this segment's.
    """

    result: ClassVar[Result[OpenedSegment | None]] = Result(OpenedSegment, type(None))

    path: str
    index_path: str
    time_index: ClosedTimeIndex | None
    position: int
    timestamp_ms: int
    from_offset: int


@dataclass(slots=True, eq=False)
class FindRecordEffect:
    """Open a batch that has been read, and find its first record at or after a time. Uses no disk, but takes a worker's
    time.

    Result: an `OffsetAtTimestamp`, or None if every record from `from_offset` on is earlier. With `or_largest` it is
    the latest of those then.
    """

    result: ClassVar[Result[OffsetAtTimestamp | Refusal | None]] = Result(OffsetAtTimestamp, Refusal, type(None))

    header: BatchHeader
    batch: Buffer
    timestamp_ms: int
    from_offset: int
    decompress: Decompress
    or_largest: bool = False


@dataclass(slots=True, eq=False)
class ReadTimestampsEffect:
    """Open the batches in a part of a segment's file, from `position` on, and find the largest timestamp of their
    records.

    Result: a `RecordTimestamps`, or a `Refusal` after an internal error.
    """

    result: ClassVar[Result[RecordTimestamps | Refusal]] = Result(RecordTimestamps, Refusal)

    file: DiskFile
    position: int
    end_position: int
    decompress: Decompress


@dataclass(slots=True, eq=False)
class ValidateBatchEffect:
    """Validate a client's batch record by record, and recompress it with its topic's codec. Uses no disk, but takes a
    worker's time.

    Result: the batch to append, or a `Refusal`.
    """

    result: ClassVar[Result[memoryview | Refusal]] = Result(memoryview, Refusal)

    records: Buffer
    topic_partition: str
    config: TopicConfig
    wall_ms: int
    codecs: Codecs


@dataclass(slots=True, eq=False)
class ReplaceEffect:
    """Put a checkpoint in place."""

    result: ClassVar[Result[bytes]] = IS_DONE

    replacement: FileReplacement


@dataclass(slots=True, eq=False)
class RetireEffect:
    """Rename the files of segments that are not in the log any more, so that a start recognizes them.

    `segments` are their files, oldest first, and each segment is durably gone before the next one is touched: a crash
    may leave any number of them, but never a gap. The files are removed later (`DeleteFilesEffect`).
    """

    result: ClassVar[Result[bytes]] = IS_DONE

    directory: str
    segments: list[list[str]]

    @property
    def retired_paths(self) -> list[str]:
        return [path + DELETED_SUFFIX for paths in self.segments for path in paths]


@dataclass(slots=True, eq=False)
class DeleteFilesEffect:
    """Remove files; missing ones, perhaps with their directory, are ignored."""

    result: ClassVar[Result[bytes]] = IS_DONE

    log_directory: str
    paths: list[str]


@dataclass(slots=True, frozen=True)
class SegmentFile:
    """A segment to be read: the path of its file, and its valid bytes.

    `index_content` is its offset index if that is in memory; None: it is in the file at `index_path`.
    """

    path: str
    base_offset: int
    byte_count: int
    index_path: str
    index_content: bytes | None


@dataclass(slots=True, frozen=True)
class ProducersToLoad:
    """Load the producers as of `upto_offset`, from the snapshots in `directory` and the batches in `segments`, which
    are in the order of their offsets.
    """

    directory: str
    segments: list[SegmentFile]
    upto_offset: int


@dataclass(slots=True, eq=False)
class TakeBackEffect:
    """Undo what a failed write has left behind for lack of space: truncate files, durably; see `disk_full_recovery`.

    Result: the producers as of the log's end (`ProducerState`) if they are requested.
    """

    result: ClassVar[Result[object]] = Result(object)

    directory: str
    cuts: list[tuple[str, int]]
    """(path, bytes to keep), of files that may not exist."""
    producers: ProducersToLoad | None = None
    """Set if producers had batches that are rolled back."""


@dataclass(slots=True, eq=False)
class CopyEffect:
    """A step of moving a log to another log directory; see `log_copy`. In the order of the fields, as far as given.

    Files that do not exist any more are skipped: they belong to a segment that was retired or compacted meanwhile,
    which the next step notices.
    """

    result: ClassVar[Result[bytes]] = IS_DONE

    log_directory: str
    future: str
    forgets: str = ""
    """A file that is removed, durably."""
    makes: tuple[str, bytes] | None = None
    """The directory is created, with this file."""
    pieces: list[tuple[str, str, int, int]] = field(default_factory=list)
    """(source, target, position, length)"""
    files: list[tuple[str, str]] = field(default_factory=list)
    """(source, target), completely: small ones."""
    flushes: list[str] = field(default_factory=list)
    keeps: list[str] | None = None
    """Every other name in the directory is removed."""
    final: str = ""
    """The new name of the directory, durably."""


@dataclass(slots=True, eq=False)
class MovedEffect:
    """A log has been moved: make it durable that it is no longer in its old log directory, then remove `marker`, which
    names its origin.
    """

    result: ClassVar[Result[bytes]] = IS_DONE

    old_log_directory: str
    marker: str


@dataclass(slots=True, eq=False)
class SpaceEffect:
    """Measure the free space of the volume of a log directory. Result: a `VolumeSpace`."""

    result: ClassVar[Result[VolumeSpace]] = Result(VolumeSpace)

    log_directory: str


@dataclass(slots=True, eq=False)
class TruncateEffect:
    """Truncate a log at `offset`, or with `truncate_fully` remove all of it and start it over there: see `log_cut`.

    `index_writes` are first, then `leader_epochs`, the checkpoint as it is after the truncation. Result: the `LogState`
    that recovery finds then.
    """

    result: ClassVar[Result[object]] = Result(object)

    directory: str
    topic_partition: TopicPartition
    config: TopicConfig
    offset: int
    truncate_fully: bool
    recovery_point: int
    log_start_offset: int
    leader_epochs: FileReplacement
    index_writes: list[SmallWrite]


@dataclass(slots=True, eq=False)
class ProbeEffect:
    """Find out whether a log directory has free space again: it has if this succeeds."""

    result: ClassVar[Result[bytes]] = IS_DONE

    log_directory: str


class Rename(NamedTuple):
    """A rename of a file, by its names in the directory."""

    source: str
    target: str
    may_be_absent: bool


@dataclass(slots=True, eq=False)
class SwapEffect:
    """Replace other segments by a cleaned one. Each phase is durable before the next one begins: see
    `compaction.swap`.
    """

    result: ClassVar[Result[bytes]] = IS_DONE

    directory: str
    phases: list[list[Rename]]

    @property
    def replaced_paths(self) -> list[str]:
        """Where the old files finally are."""
        renames = [rename for phase in self.phases for rename in phase]
        return [f"{self.directory}/{rename.target}" for rename in renames if rename.target.endswith(DELETED_SUFFIX)]


@dataclass(slots=True, eq=False)
class DropCleanedEffect:
    """Remove files that an aborted pass has written and that were not swapped in."""

    result: ClassVar[Result[bytes]] = IS_DONE

    directory: str


@dataclass(slots=True, eq=False)
class DeleteDirectoryEffect:
    """Remove a directory and the files in it."""

    result: ClassVar[Result[bytes]] = IS_DONE

    path: str


DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"

StorageEffect = (
    WriteEffect
    | ReadEffect
    | ReadBatchesEffect
    | FindAbortedEffect
    | FindTimestampsEffect
    | OpenSegmentEffect
    | FindRecordEffect
    | ReadTimestampsEffect
    | ValidateBatchEffect
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
