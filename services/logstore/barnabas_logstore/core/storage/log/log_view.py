"""What of a log is to be read: how far it goes, its batches, and offsets by time. Nothing of the log changes here."""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.compression import Decompress
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.effects import ReadEffect
from barnabas_logstore.core.storage.log.features import log_reads
from barnabas_logstore.core.storage.log.features.log_reads import ReadPlan
from barnabas_logstore.core.storage.log.features.timestamp_lookup import TimestampLookup, lookup_timestamp
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.segment.log_segments import LogSegments


class LogView:
    """The part of `PartitionLog` that its readers need."""

    def __init__(self, state: LogState) -> None:
        self.state = state

    @property
    def directory(self) -> str:
        return self.state.directory

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition

    @property
    def config(self) -> TopicConfig:
        return self.state.config

    @property
    def segments(self) -> LogSegments:
        return self.state.segments

    @property
    def leader_epochs(self) -> LeaderEpochs:
        return self.state.leader_epochs

    @property
    def producers(self) -> ProducerState:
        return self.state.producers

    @property
    def log_start_offset(self) -> int:
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Where what is written ends, which may be read."""
        return self.state.log_end_offset

    @property
    def next_offset(self) -> int:
        """Where what is appended ends, written or not."""
        return self.state.next_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is durable."""
        return self.state.recovery_point

    @property
    def written_position(self) -> int:
        """Where `log_end_offset` is in the bytes of the whole log."""
        return self.state.written_position

    @property
    def byte_count(self) -> int:
        """What the log takes on its disk, less its indexes."""
        return self.state.segments.byte_count

    @property
    def first_dirty_offset(self) -> int:
        """Below it the log has been compacted; 0 while it never was."""
        return self.state.first_dirty_offset

    @property
    def error(self) -> DiskError | None:
        """Why the log is offline; it stays so until its directory is opened again."""
        return self.state.error

    @property
    def no_room(self) -> DiskError | None:
        """Why the log takes no appends for now."""
        return self.state.no_room

    @property
    def is_being_cleaned(self) -> bool:
        """The cleaner is at work on it, and may look for its files by their names."""
        return self.state.is_being_cleaned

    @property
    def is_held(self) -> bool:
        """It is about to be in another log directory: nothing new is begun on the disk, appends gather."""
        return self.state.is_held

    # --- reads ---

    def plan_read(
        self, offset: int, max_bytes: int, upto_offset: int, *, min_one_batch: bool
    ) -> ReadPlan | ErrorCode | None:
        """What to read for a fetch from `offset` that may see what is below `upto_offset`.

        None: nothing is there to be read now. OFFSET_OUT_OF_RANGE: `offset` is not in the log. See `ReadPlan` for how
        to go on. Like all reads it raises DiskError when a closed segment's files can't be opened.
        """
        state = self.state
        if state.error is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not state.log_start_offset <= offset <= state.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        upto_offset = min(upto_offset, state.log_end_offset)
        if offset >= upto_offset or (max_bytes <= 0 and not min_one_batch):
            return None
        return log_reads.plan_read(state, offset, max_bytes, upto_offset, min_one_batch)

    def finish_read(self, plan: ReadPlan, data: bytes) -> memoryview | ReadEffect | ErrorCode:
        """The batches in the answer to `plan.effect`, or another effect to run before there are any."""
        return log_reads.finish_read(self.state, plan, data)

    def byte_position_of(self, offset: int) -> int:
        """Where `offset` is in the bytes of the whole log: never less for a later offset, across segments.

        Exact at the log's end, at the start of segments and among the last batches; elsewhere at most about an index
        interval low.
        """
        state = self.state
        if offset >= state.log_end_offset:
            return state.written_position
        segment = state.segments.holding(offset)
        return segment.position_in_log(state.segments.batch_position(segment, offset)[0])

    def lookup_timestamp(self, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> TimestampLookup:
        """ListOffsets; see `timestamp_lookup`."""
        return lookup_timestamp(self.state, timestamp_ms, min(upto_offset, self.log_end_offset), decompress)
