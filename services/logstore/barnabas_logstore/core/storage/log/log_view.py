"""The readable part of a log: its end, its batches, and offsets by time. Nothing here changes the log.

How batches are read for a fetch, where a read begins and stops, is what KIP-74 requires.

A plan holds one effect at a time, and nearly always one is enough: the worker that carries it out walks from an index
entry over the headers of batches to the requested one, and reads from there (`effect_execution.read_batches`). Another
effect follows if the segment has nothing from the offset on, or if an index entry was wrong. The files of a segment
that are not open are opened by that worker too. If the segment has been replaced or deleted meanwhile, what it found
may be another's: the read is planned again.

An answer may end with a part of a batch, as Kafka's do, but it never begins with one. If the disk has damaged the
length of a batch, nothing can be read from there on: CORRUPT_MESSAGE, as in Kafka. The reader finds damage within a
batch, by the CRC.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.compression import Decompress
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange, Records
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.effect_results import AbortedTransaction, FoundBatches, NotFound
from barnabas_logstore.core.storage.effects import EndOfRecords, ReadBatchesEffect
from barnabas_logstore.core.storage.file_parts import FilePart, UnopenedFile
from barnabas_logstore.core.storage.log.features.aborted_lookup import AbortedLookup, AbortedQuestion, find_aborted
from barnabas_logstore.core.storage.log.features.timestamp_lookup import TimestampLookup, lookup_timestamp
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.segment.log_segments import LogSegments
from barnabas_logstore.core.storage.segment.segment import Segment


@dataclass(slots=True, eq=False)
class ReadPlan:
    """Run `effect`, pass its result to `PartitionLog.finish_read`, and repeat while that returns another effect.

    `fetch_position` is where the batch that contains the offset begins in the bytes of the whole log, once the plan is
    finished.
    """

    effect: ReadBatchesEffect
    segment: Segment
    upto_offset: int
    fetch_position: int = -1
    searches_anew: bool = False
    """An index entry was wrong: the batch is looked for from the segment's beginning."""

    @property
    def bytes_max(self) -> int:
        """How much is returned at most, if the first batch is not larger than what was asked for."""
        part = self.effect.part
        return min(self.effect.max_bytes, part.end_position - part.position)


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
        """The end of what is written, which may be read."""
        return self.state.log_end_offset

    @property
    def next_offset(self) -> int:
        """The end of what is appended, written or not."""
        return self.state.next_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is durable."""
        return self.state.recovery_point

    @property
    def written_position(self) -> int:
        """The position of `log_end_offset` in the bytes of the whole log."""
        return self.state.written_position

    @property
    def byte_count(self) -> int:
        """The size of the log on its disk, without its indexes."""
        return self.state.segments.byte_count

    @property
    def first_dirty_offset(self) -> int:
        """The log has been compacted below it; 0 if never."""
        return self.state.first_dirty_offset

    @property
    def error(self) -> DiskError | None:
        """Why the log is offline; it stays so until its directory is opened again."""
        return self.state.error

    @property
    def no_room(self) -> DiskError | None:
        """Why the log accepts no appends for now."""
        return self.state.no_room

    @property
    def is_being_cleaned(self) -> bool:
        """The cleaner is working on it, and may open its files by their names."""
        return self.state.is_being_cleaned

    @property
    def is_held(self) -> bool:
        """It is about to be moved to another log directory: nothing new is begun on the disk, appends accumulate."""
        return self.state.is_held

    # --- reads ---

    def plan_read(
        self, offset: int, max_bytes: int, upto_offset: int, *, min_one_batch: bool, range_bytes_min: int = 0
    ) -> ReadPlan | ErrorCode | None:
        """Plan what to read for a fetch from `offset` that may see what is below `upto_offset`.

        From `range_bytes_min` on, unless that is 0, records may be returned as a range of their file.

        None: there is nothing to read now. OFFSET_OUT_OF_RANGE: `offset` is not in the log. See `ReadPlan` for how to
        continue. Like all reads it raises DiskError.
        """
        state = self.state
        if state.error is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not state.log_start_offset <= offset <= state.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        upto_offset = min(upto_offset, state.log_end_offset)
        if offset >= upto_offset or (max_bytes <= 0 and not min_one_batch):
            return None
        return _plan(state, offset, max_bytes, upto_offset, min_one_batch, range_bytes_min)

    def finish_read(
        self, plan: ReadPlan, found: FoundBatches | NotFound
    ) -> memoryview | FileRange | ReadBatchesEffect | ErrorCode:
        """Return the batches that `plan.effect` has found, or another effect to run first. OFFSET_OUT_OF_RANGE: they
        have been deleted before their file was open. Raises DiskError.
        """
        return _finish(self.state, plan, found)

    def aborted_transactions(
        self, plan: ReadPlan, records: Records
    ) -> AbortedLookup | list[AbortedTransaction] | ErrorCode:
        """Look up the aborted transactions that may have batches among `records`, which `plan` has found; a list, or
        OFFSET_OUT_OF_RANGE, where that takes no lookup: see `aborted_lookup`.
        """
        if not len(records):
            return []
        state, segment, from_offset = self.state, plan.segment, plan.effect.offset
        if segment.is_retired and from_offset < state.log_start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        segments = state.segments
        if not segments.with_aborted(segments.containing(segment.base_offset).base_offset, 1):
            return []
        following = segments.after(segment)
        upto_offset = plan.upto_offset if following is None else min(plan.upto_offset, following.base_offset)
        end: EndOfRecords | None = None
        if not segment.is_retired:
            end_position = plan.fetch_position + len(records) - segment.position_in_log(0)
            index = segment.offset_index_in_memory
            if index is None:
                end = EndOfRecords(segment.offset_index_path, segment.base_offset, segment.byte_count, end_position)
            else:
                upto_offset = min(upto_offset, index.offset_from(end_position, upto_offset))
        return find_aborted(state, AbortedQuestion(segment, from_offset, upto_offset, end))

    def byte_position_of(self, offset: int) -> int:
        """Return the position of `offset` in the bytes of the whole log: never less for a later offset, across
        segments.

        Exact at the log's end, at the start of segments and among the last batches; elsewhere at most about an index
        interval low.
        """
        state = self.state
        if offset >= state.log_end_offset:
            return state.written_position
        segment = state.segments.containing(offset)
        return segment.position_in_log(state.segments.batch_position(segment, offset)[0])

    def fetch_position_of(self, offset: int, upto_offset: int) -> int:
        """Return `byte_position_of` an offset from which a read returns nothing now.

        What is below `upto_offset` from there on ends any wait for it, so that then the beginning of its segment will
        do as well, if a file had to be opened to tell more.
        """
        state = self.state
        if offset < min(upto_offset, state.log_end_offset):
            segment = state.segments.containing(offset)
            if state.segments.known_position(segment, offset) is None:
                return segment.position_in_log(0)
        return self.byte_position_of(offset)

    def lookup_timestamp(self, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> TimestampLookup:
        """ListOffsets; see `timestamp_lookup`."""
        return lookup_timestamp(self.state, timestamp_ms, min(upto_offset, self.log_end_offset), decompress)


def _plan(
    state: LogState, offset: int, max_bytes: int, upto_offset: int, min_one_batch: bool, range_bytes_min: int
) -> ReadPlan:
    """`offset` is in the log and below `upto_offset`, which is at most the log's end."""
    segment = state.segments.containing(offset)
    part = _part_of(state, segment, offset, upto_offset)
    effect = ReadBatchesEffect(part, offset, max_bytes, min_one_batch, range_bytes_min)
    return ReadPlan(effect, segment, upto_offset)


def _part_of(state: LogState, segment: Segment, offset: int, upto_offset: int) -> FilePart:
    """Return the part of a segment that has the batches of [offset, upto_offset)."""
    end_position = min(segment.byte_count, state.written_position - segment.start_position)
    limit_offset, limit_position = -1, 0
    segments = state.segments
    start = segments.known_position(segment, offset)
    is_known = start is not None
    following = segments.after(segment)
    if upto_offset < state.log_end_offset and (following is None or upto_offset < following.base_offset):
        limit = segments.known_position(segment, upto_offset)
        if limit is None or not limit[1]:
            limit_offset = upto_offset
        if limit is None:
            is_known = False
        elif limit[1]:
            end_position = limit[0]
        else:
            limit_position = limit[0]
    if start is None or not is_known:
        return FilePart(segment.unopened(with_indexes=True), 0, end_position, limit_offset)
    position = start[0]
    if position >= end_position:
        # Only an index entry that the disk has damaged points there: its batch is looked for from the start.
        position = 0
    opened = segment.opened_file
    file = segment.unopened(with_indexes=False) if opened is None else opened
    return FilePart(file, position, end_position, limit_offset, limit_position)


def _part_opened_here(state: LogState, plan: ReadPlan) -> FilePart:
    """Return the part of `plan` for which a worker has not found all files: they are opened here, after the segment has
    moved to another directory, or its indexes are rebuilt. Raises DiskError.
    """
    part, segment, segments = plan.effect.part, plan.segment, state.segments
    position, _ = segments.batch_position(segment, plan.effect.offset)
    limit_position = 0 if part.limit_offset < 0 else segments.batch_position(segment, part.limit_offset)[0]
    position = position if position < part.end_position else 0
    return replace(part, file=segment.file, position=position, limit_position=limit_position)


def _finish(
    state: LogState, plan: ReadPlan, found: FoundBatches | NotFound
) -> memoryview | FileRange | ReadBatchesEffect | ErrorCode:
    """Return batches from the one that contains the offset on, below `plan.upto_offset`; empty if none may be
    returned. CORRUPT_MESSAGE: the bytes there are not a batch.
    """
    unopened = plan.effect.part.file
    if isinstance(unopened, UnopenedFile):
        # Which file has the name then is known only of a segment that is still the log's.
        if plan.segment.is_retired:
            return _plan_again(state, plan)
        if found is NotFound.NO_FILE:
            plan.effect = replace(plan.effect, part=_part_opened_here(state, plan))
            return plan.effect
        if unopened.indexes is not None:
            plan.segment.indexes_checked()
    if isinstance(found, FoundBatches):
        if found.position >= 0:
            plan.fetch_position = plan.segment.position_in_log(found.position)
        return found.records
    if found is NotFound.PAST_THE_END:
        return _go_on_in_next_segment(state, plan)
    if plan.searches_anew:
        return ErrorCode.CORRUPT_MESSAGE
    # There is no batch at the expected position: the disk has damaged an index entry, or the log.
    plan.searches_anew = True
    file = replace(unopened, indexes=None) if isinstance(unopened, UnopenedFile) else unopened
    part = replace(plan.effect.part, file=file, position=0, limit_position=0)
    plan.effect = replace(plan.effect, part=part)
    return plan.effect


def _plan_again(state: LogState, plan: ReadPlan) -> ReadBatchesEffect | ErrorCode:
    """The segment has left the log before its file was open."""
    offset = plan.effect.offset
    if offset < state.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    plan.segment = state.segments.containing(offset)
    plan.searches_anew = False
    plan.effect = replace(plan.effect, part=_part_of(state, plan.segment, offset, plan.upto_offset))
    return plan.effect


def _go_on_in_next_segment(state: LogState, plan: ReadPlan) -> memoryview | ReadBatchesEffect:
    """The rest of this segment has nothing from the offset on: compaction leaves such gaps."""
    offset = plan.effect.offset
    if plan.segment.is_retired:
        # A cleaned segment that has replaced it may reach further.
        following: Segment | None = state.segments.containing(offset)
    else:
        following = state.segments.after(plan.segment)
    if following is None or following.base_offset >= plan.upto_offset:
        return memoryview(b"")
    plan.segment = following
    plan.effect = replace(plan.effect, part=_part_of(state, following, offset, plan.upto_offset))
    return plan.effect
