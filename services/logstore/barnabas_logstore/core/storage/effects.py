"""What a log wants done to the disk, as data: paths, positions and bytes, nothing of the log itself.

The core never waits for bytes: it hands out an effect, an IO worker carries it out (`effect_execution`), and the core
takes the result in a later step. The simulation carries out the same effects, and delays, fails or tears them.
What follows an effect is not part of it: see `Outbox.add_effect`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.compression import Codecs, Decompress
from barnabas.ports.disk import Buffer, DiskFile
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.storage.checkpoints import TopicPartition


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

    `directory` is that of the log. `files` are paths, new files among them.
    """

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
    clean stop thousands of logs have to be durable, of five files each.
    """

    log_directory: str
    flushes: list[FlushEffect]


@dataclass(slots=True, eq=False)
class WriteEffect:
    """Append `buffers` to one segment's file: every batch that gathered while the last write was under way.

    `directory` is that of the log, `path` that of the segment's file. The log ends at `end_offset` then. With `flush`
    the write counts only once that has been carried out too (flush.messages): then the topic promises that what is
    acknowledged is on the disk.
    """

    directory: str
    path: str
    position: int
    end_offset: int
    buffers: list[Buffer] = field(default_factory=list)
    byte_count: int = 0
    creates: list[str] = field(default_factory=list)
    """The files of the segment, when this is the first write to it: they are made, empty."""
    index_writes: list[SmallWrite] = field(default_factory=list)
    flush: FlushEffect | None = None


@dataclass(slots=True, eq=False)
class ReadEffect:
    """Read `length` bytes at `position`; the result has fewer only where the file ends."""

    file: DiskFile
    position: int
    length: int


@dataclass(slots=True, eq=False)
class FindRecordEffect:
    """Open a batch that has been read, and find its first record at or after a time. No disk, but work for a worker.

    Result: an `OffsetAtTimestamp`, or None when every record from `from_offset` on is earlier.
    """

    header: BatchHeader
    batch: bytes
    timestamp_ms: int
    from_offset: int
    decompress: Decompress


@dataclass(slots=True, eq=False)
class ValidateBatchEffect:
    """Validate a client's batch record by record, and give it its topic's codec. No disk, but work for a worker.

    Result: the batch to append, or a `Refusal`.
    """

    records: memoryview
    topic_partition: str
    config: TopicConfig
    wall_ms: int
    codecs: Codecs


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


@dataclass(slots=True, frozen=True)
class SegmentFile:
    """A segment as it is to be read: the path of its file, and the bytes of it that count.

    `index_content` is its offset index where that is in memory; None: it is in the file at `index_path`.
    """

    path: str
    base_offset: int
    byte_count: int
    index_path: str
    index_content: bytes | None


@dataclass(slots=True, frozen=True)
class ProducersToLoad:
    """Have the producers loaded as of `upto_offset`, from the snapshots in `directory` and the batches in `segments`,
    which are in the order of their offsets.
    """

    directory: str
    segments: list[SegmentFile]
    upto_offset: int


@dataclass(slots=True, eq=False)
class TakeBackEffect:
    """Undo what a write left behind that found no room: cut files, durably; see `disk_full_recovery`.

    Result: the producers as of the log's end (`ProducerState`) where they are asked for.
    """

    directory: str
    cuts: list[tuple[str, int]]
    """(path, bytes to keep), of files that may not be there."""
    producers: ProducersToLoad | None = None
    """Where producers had batches that are taken back."""


@dataclass(slots=True, eq=False)
class CopyEffect:
    """A step of a log's way to another log directory; see `log_copy`. In the order of the fields, as far as given.

    Files that are not there any more are passed over: of a segment that was retired or compacted meanwhile, which the
    next step notices.
    """

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
    """A log has been moved: make it last that it is no longer in its old log directory, then remove `marker`, which
    says where it comes from.
    """

    old_log_directory: str
    marker: str


@dataclass(slots=True, eq=False)
class SpaceEffect:
    """How much room the volume of a log directory has. Result: a `VolumeSpace`."""

    log_directory: str


class VolumeSpace(NamedTuple):
    total_bytes: int
    usable_bytes: int


@dataclass(slots=True, eq=False)
class TruncateEffect:
    """Cut a log at `offset`, or with `begin_anew` remove all of it and begin it anew there: see `log_cut`.

    `index_writes` go first, then `leader_epochs`, the checkpoint as it is after the cut. Result: the `LogState` that
    recovery finds then.
    """

    directory: str
    topic_partition: TopicPartition
    config: TopicConfig
    offset: int
    begin_anew: bool
    recovery_point: int
    log_start_offset: int
    leader_epochs: FileReplacement
    index_writes: list[SmallWrite]


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

    directory: str
    phases: list[list[Rename]]

    @property
    def replaced_paths(self) -> list[str]:
        """Where the old files are in the end."""
        renames = [rename for phase in self.phases for rename in phase]
        return [f"{self.directory}/{rename.target}" for rename in renames if rename.target.endswith(DELETED_SUFFIX)]


@dataclass(slots=True, eq=False)
class DropCleanedEffect:
    """Remove what a pass that was aborted has written and has not been taken over."""

    directory: str


@dataclass(slots=True, eq=False)
class DeleteDirectoryEffect:
    """Remove a directory and the files in it."""

    path: str


DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"

StorageEffect = (
    WriteEffect
    | ReadEffect
    | FindRecordEffect
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
