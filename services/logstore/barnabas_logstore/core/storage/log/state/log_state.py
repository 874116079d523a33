"""The state of a log: its segments, epochs and producers, its offsets, and its obstacles.

The features of a log (writes, flushes, reads, retention, …) share this and do not depend on each other; what concerns
two of them is a method of `PartitionLog`. Each field is written by only one feature, or by `PartitionLog`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.effects import NewFile, SmallWrite
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.log.state.verification_guards import VerificationGuards
from barnabas_logstore.core.storage.segment.log_segments import LogSegments
from barnabas_logstore.core.storage.segment.segment import Segment


class LogInDoubt(Exception):  # noqa: N818 - what is wrong is its cause
    """An unexpected exception has been raised while a log was being changed: its state may be half-changed."""


@dataclass(slots=True, eq=False)
class UnflushedFiles:
    """What the next flushes make durable besides the batches; written only by `LogFlushes` once the log is open."""

    snapshot_offset: int
    """The offset of the newest snapshot of producers, on the disk or being written; 0: none is needed."""
    has_new_names: bool
    """Whether names of files in the log's directory, or its own, may not be durable."""
    closed_segments: list[tuple[Segment, int]]
    """Segments, with their end offsets, that are not known to be completely durable, oldest first."""
    snapshots: list[tuple[int, NewFile]] = field(default_factory=list)
    """Snapshots of the producers with their offsets, not written yet."""
    other_files: list[SmallWrite] = field(default_factory=list)
    """New files that contain no batches, written already and once more with their flush."""

    def add_snapshot(self, snapshot: NewFile, offset: int) -> None:
        """Write a snapshot of the producers as of `offset` with a flush that reaches it."""
        self.snapshots.append((offset, snapshot))
        self.snapshot_offset = offset
        self.has_new_names = True


@dataclass(slots=True, eq=False)
class LogState:
    """Found by `recovery`. `next_offset` is assigned in memory, `log_end_offset` is written (and flushed, if
    flush.messages requires it) and may be read, everything below `recovery_point` is durable.
    """

    directory: str
    topic_partition: TopicPartition
    config: TopicConfig
    segments: LogSegments
    leader_epochs: LeaderEpochs
    producers: ProducerState
    unflushed: UnflushedFiles
    log_start_offset: int
    next_offset: int
    recovery_point: int
    log_directory: str = field(init=False)
    """The one of `log.dirs` that contains `directory`."""
    log_end_offset: int = field(init=False)
    written_position: int = field(init=False)
    """The position of `log_end_offset` in the bytes of the whole log."""
    first_dirty_offset: int = 0
    """The log has been compacted below it; 0 if never."""
    error: DiskError | None = None
    """Why the log is offline; it stays so until its directory is opened again."""
    no_room: DiskError | None = None
    """Why the log accepts no appends for now."""
    is_being_cleaned: bool = False
    """The cleaner is working on it, and may open its files by their names."""
    verification_guards: VerificationGuards = field(default_factory=VerificationGuards)
    """Which producers may begin a transaction."""
    is_held: bool = False
    """It is about to be moved to another log directory: nothing new is begun on the disk, appends accumulate."""

    def __post_init__(self) -> None:
        self.relocate(self.directory)
        self.log_end_offset = self.next_offset
        self.written_position = self.segments.end_position

    def relocate(self, directory: str) -> None:
        """The log's files are in `directory`."""
        self.directory = directory
        self.log_directory = directory.rpartition("/")[0]

    def move_log_start(self, offset: int) -> None:
        """Never moves back. What is before it is not in the log any more, whether its files are gone or not."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.trim_to(offset)

    def become(self, opened: LogState) -> None:
        """Replace the state: the log has been truncated, and opened again."""
        self.segments, self.leader_epochs, self.producers = opened.segments, opened.leader_epochs, opened.producers
        self.log_start_offset = opened.log_start_offset
        self.next_offset = self.log_end_offset = opened.next_offset
        self.written_position = opened.written_position
        self.recovery_point = opened.recovery_point
        self.first_dirty_offset = min(self.first_dirty_offset, opened.next_offset)
        self.verification_guards.void_all()
