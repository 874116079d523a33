"""What a log is: its segments, epochs and producers, how far it goes, and what stands in its way.

The features of a log (writes, flushes, reads, retention, …) share this and know nothing of each other; what concerns
two of them is a method of `PartitionLog`. Each field has one feature, or `PartitionLog`, that writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.effects import NewFile
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.segment.log_segments import LogSegments
from barnabas_logstore.core.storage.segment.segment import Segment


@dataclass(slots=True, eq=False)
class UnflushedFiles:
    """What the next flushes make durable besides the batches; written by `LogFlushes` alone once the log is open."""

    snapshot_offset: int
    """Of the newest snapshot of producers, on the disk or on its way there; 0: none is needed."""
    has_new_names: bool
    """Names of files in the log's directory, or its own, may not be durable."""
    closed_segments: list[tuple[Segment, int]]
    """Segments, with their end offsets, that are not known to be durable as a whole, oldest first."""
    snapshots: list[tuple[int, NewFile]] = field(default_factory=list)
    """Snapshots of the producers with their offsets, not written yet."""
    other_paths: list[str] = field(default_factory=list)
    """New files that hold no batches."""

    def add_snapshot(self, snapshot: NewFile, offset: int) -> None:
        """Have a snapshot of the producers as of `offset` written with a flush that reaches it."""
        self.snapshots.append((offset, snapshot))
        self.snapshot_offset = offset
        self.has_new_names = True


@dataclass(slots=True, eq=False)
class LogState:
    """Found by `recovery`. `next_offset` is assigned in memory, `log_end_offset` is written (and flushed, where
    flush.messages asks for it) and may be read, everything below `recovery_point` is durable.
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
    """The one of `log.dirs` that `directory` is in."""
    log_end_offset: int = field(init=False)
    written_position: int = field(init=False)
    """Where `log_end_offset` is in the bytes of the whole log."""
    first_dirty_offset: int = 0
    """Below it the log has been compacted; 0 while it never was."""
    error: DiskError | None = None
    """Why the log is offline; it stays so until its directory is opened again."""
    no_room: DiskError | None = None
    """Why the log takes no appends for now."""
    is_being_cleaned: bool = False
    """The cleaner is at work on it, and may look for its files by their names."""
    is_held: bool = False
    """It is about to be in another log directory: nothing new is begun on the disk, appends gather."""

    def __post_init__(self) -> None:
        self.relocate(self.directory)
        self.log_end_offset = self.next_offset
        self.written_position = self.segments.end_position

    def relocate(self, directory: str) -> None:
        """The log's files are in `directory`."""
        self.directory = directory
        self.log_directory = directory.rpartition("/")[0]

    def move_log_start(self, offset: int) -> None:
        """Never back. What is before it is not in the log any more, whether its files are gone or not."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.trim_to(offset)

    def become(self, opened: LogState) -> None:
        """Take the place of what the log was: it has been cut, and opened again."""
        self.segments, self.leader_epochs, self.producers = opened.segments, opened.leader_epochs, opened.producers
        self.log_start_offset = opened.log_start_offset
        self.next_offset = self.log_end_offset = opened.next_offset
        self.written_position = opened.written_position
        self.recovery_point = opened.recovery_point
        self.first_dirty_offset = min(self.first_dirty_offset, opened.next_offset)
