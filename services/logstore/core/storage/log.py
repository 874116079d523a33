"""A partition's log: appends, what of them is written and what is durable, and rolling from segment to segment.

Three offsets tell the story: `next_offset` is assigned in memory, `log_end_offset` is written (and flushed, where
flush.messages asks for it) and may be read, `recovery_point` is durable. One write is under way at a time; whatever
is appended meanwhile goes into the next one. The log never waits: effects go out through `take_write` and
`take_flush`, outcomes come back through `on_…`.

Files of a new segment are made by direct calls, once per segment: no data is involved. Everything that can take as
long as a disk likes (bytes, flushes of a closed segment, snapshots of producers) is in effects.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.ports.compression import Decompress
from barnabas.ports.disk import Disk, DiskError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import patch_log_append_time
from services.logstore.core.storage import log_reads, log_start
from services.logstore.core.storage.batch_validation import check_client_batch
from services.logstore.core.storage.checkpoints import TopicPartition
from services.logstore.core.storage.compaction.orders import CleanedSegment
from services.logstore.core.storage.compaction.swap import begin_swap
from services.logstore.core.storage.effects import (
    FlushEffect,
    NewFile,
    ReadEffect,
    RetireEffect,
    SwapEffect,
    WriteEffect,
)
from services.logstore.core.storage.leader_epochs import LeaderEpochs
from services.logstore.core.storage.log_flushes import LogFlushes
from services.logstore.core.storage.log_reads import ReadPlan
from services.logstore.core.storage.log_retirement import LogRetirement
from services.logstore.core.storage.log_room import LogRoom
from services.logstore.core.storage.log_segments import LogSegments
from services.logstore.core.storage.log_start import RetentionOutcome
from services.logstore.core.storage.log_truncation import LogTruncation
from services.logstore.core.storage.log_writes import LogWrites
from services.logstore.core.storage.producer_state import (
    SNAPSHOT_SUFFIX,
    ForgottenBatch,
    ProducedBatch,
    ProducerState,
)
from services.logstore.core.storage.rolling import must_roll
from services.logstore.core.storage.segment import Segment, file_name
from services.logstore.core.storage.time_index import NO_TIMESTAMP
from services.logstore.core.storage.timestamp_lookup import TimestampLookup, lookup_timestamp


@dataclass(slots=True, eq=False)
class AppendOutcome:
    """Where a batch went. It counts once `log_end_offset` reaches `required_offset`.

    `is_written` is only true of a duplicate whose first copy is in the log already: its token never comes back from
    `on_written`. `log_append_time_ms` is -1 unless the topic has LogAppendTime. `base_offset` is -1 of a duplicate that
    is in the log and whose place there is no longer known.
    """

    base_offset: int
    required_offset: int
    log_append_time_ms: int
    is_duplicate: bool = False
    is_written: bool = False


class PartitionLog:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        segments: LogSegments,
        leader_epochs: LeaderEpochs,
        producers: ProducerState,
        *,
        log_start_offset: int,
        next_offset: int,
        recovery_point: int,
        snapshot_offset: int,
        is_durable: bool,
        closed_segments: list[tuple[Segment, int]],
    ) -> None:
        """Made by `recovery.open_log`.

        `snapshot_offset` is that of the newest snapshot of producers on the disk (0: none is needed). `is_durable` says
        that the names of the files are. `closed_segments` are those, with their end offsets, that are not known to be
        durable as a whole, oldest first.
        """
        self._disk = disk
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.next_offset = next_offset
        self.log_end_offset = next_offset
        self.written_position = segments.end_position
        self.error: DiskError | None = None
        """Why the log is offline; it stays so until its directory is opened anew."""
        self.unreported: list[object] = []
        """Effects that were under way when it went offline, and may still do something to the files of these names."""
        self.first_dirty_offset = 0
        """Below it the log has been compacted; 0 while it never was."""
        self.is_being_cleaned = False
        """The cleaner is at work on it, and may look for its files by their names."""
        self._swap: SwapEffect | None = None
        self.is_held = False
        """It is about to be in another log directory: nothing new is begun on the disk, appends gather."""
        self.room = LogRoom(self)
        self.retirement = LogRetirement(self)
        self.truncation = LogTruncation(self)
        self.writes = LogWrites(self)
        self.flushes = LogFlushes(
            self,
            recovery_point=recovery_point,
            snapshot_offset=snapshot_offset,
            is_durable=is_durable,
            closed_segments=closed_segments,
        )

    def flush_along(self, path: str) -> None:
        """Have a new file, which is the log's but holds none of its batches, flushed with the next flush."""
        self.flushes.add_file(path)

    # --- appends ---

    def append(self, records: memoryview, leader_epoch: int, wall_ms: int, token: object) -> AppendOutcome | ErrorCode:
        """Take a batch under `leader_epoch`, which the caller knows to be the present one.

        `records` must stay as it is until the write that carries it is done. `token`, if any, comes back then, from
        `on_written` or `fail`. KAFKA_STORAGE_ERROR: the log is offline (`error`), or its disk full (`room.error`).
        """
        if self.error is not None or self.room.error is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        config = self.config
        checked = check_client_batch(records, config, wall_ms)
        if isinstance(checked, ErrorCode):
            return checked
        header, records = checked
        last_offset_delta = header.last_offset_delta
        if header.producer_id >= 0:
            known = self.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, last_offset_delta
            )
            if isinstance(known, ProducedBatch):
                return self._repeat(known.first_offset, known.last_offset + 1, known.timestamp_ms, token)
            if isinstance(known, ForgottenBatch):
                return self._repeat(-1, known.end_offset_max, -1, token)
            if known is not ErrorCode.NONE:
                return known
        max_timestamp_ms = header.max_timestamp
        log_append_time_ms = -1
        if config.message_timestamp_type == LOG_APPEND_TIME:
            stamped = bytearray(records)
            patch_log_append_time(stamped, 0, wall_ms)
            records = memoryview(stamped)
            max_timestamp_ms = log_append_time_ms = wall_ms
        byte_count = len(records)
        base_offset = self.next_offset
        last_offset = base_offset + last_offset_delta
        segment = self.segments.active
        if segment.byte_count and must_roll(
            segment, self.directory, config, byte_count, last_offset, max_timestamp_ms, wall_ms
        ):
            segment = self.roll()
        if leader_epoch != self.leader_epochs.latest:
            assert leader_epoch > self.leader_epochs.latest, "an append under an old leader epoch must be fenced before"
            self.leader_epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self.producers.update(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                last_offset_delta,
                last_offset,
                max_timestamp_ms,
            )
        self.writes.add(segment, records, base_offset, last_offset + 1, leader_epoch, token)
        self.segments.recent.add(base_offset, segment.byte_count)
        segment.add_batch(last_offset, byte_count, max_timestamp_ms)
        self.next_offset = last_offset + 1
        return AppendOutcome(base_offset, last_offset + 1, log_append_time_ms)

    def _repeat(self, base_offset: int, required_offset: int, timestamp_ms: int, token: object) -> AppendOutcome:
        """A duplicate succeeds as its first copy does: now when that is written, else along with it."""
        log_append_time_ms = timestamp_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else -1
        # What a process before this one has written it may not have lived to flush (flush.messages).
        is_flushed = required_offset - self.recovery_point < self.config.flush_messages
        is_written = self.log_end_offset >= required_offset and is_flushed
        if not is_written and self.writes.is_idle:
            self.writes.flush_behind(self.segments.active, self.next_offset, token)
        elif not is_written:
            self.writes.join(required_offset, token)
        return AppendOutcome(base_offset, required_offset, log_append_time_ms, True, is_written)

    # --- rolling ---

    def roll(self) -> Segment:
        """Begin a segment at `next_offset`; its files are made by the first write to it.

        The closed one is flushed by an effect as soon as all of it is written: that can take seconds, and no append has
        to wait for it.
        """
        closing = self.segments.active
        closing.seal()
        self._add_snapshot()
        segment = self._segment_after(closing)
        segment.begin()
        self.segments.add(segment)
        self.flushes.add_closed_segment(closing, self.next_offset)
        return segment

    def _segment_after(self, closing: Segment) -> Segment:
        start_position = closing.start_position + closing.byte_count
        return Segment(self._disk, self.directory, self.next_offset, start_position, self.config)

    def try_to_roll(self) -> bool:
        """Begin a segment while nothing is appended, files and all, so that the one before it can go.

        False: not now, as the disk is at work or full. Raises DiskError.
        """
        if not self.is_idle or self.room.error is not None:
            return False
        segment = self._segment_after(self.segments.active)
        try:
            segment.create()
        except DiskError as error:
            if not error.is_lack_of_room:
                raise
            segment.remove()
            return False
        self.roll().is_made = True
        self.flushes.names_changed()
        return True

    def _add_snapshot(self) -> None:
        """Have the producers as of `next_offset` written with the next flush."""
        if self.flushes.snapshot_offset != self.next_offset:
            self.add_snapshot(self.next_offset, self.producers.snapshot())

    def add_snapshot(self, offset: int, content: bytes) -> None:
        """Have a snapshot of the producers as of `offset` written with a flush that reaches it."""
        path = f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
        self.flushes.add_snapshot(NewFile(path, content), offset)

    # --- the log's start ---

    @property
    def byte_count(self) -> int:
        """What the log takes on its disk, less its indexes."""
        return self.segments.byte_count

    def delete_records(self, offset: int, high_watermark: int) -> int | ErrorCode:
        """DeleteRecords: the log start from now on, which is at least `offset` (-1: the high watermark).

        OFFSET_OUT_OF_RANGE past the high watermark; POLICY_VIOLATION where cleanup.policy lacks delete;
        KAFKA_STORAGE_ERROR. What a crash may undo: see `log_start`.
        """
        return log_start.delete_records(self, offset, high_watermark)

    def move_log_start(self, offset: int) -> None:
        """As the leader says; never back."""
        log_start.move_log_start(self, offset)

    def apply_retention(self, high_watermark: int, wall_ms: int) -> RetentionOutcome:
        """Take old segments away: see `log_start.apply_retention`. Raises DiskError."""
        is_busy = self._swap is not None or self.is_held or self.truncation.is_begun
        if self.error is not None or is_busy or not self.room.is_log_whole:
            return RetentionOutcome.NOTHING
        return log_start.apply_retention(self, high_watermark, wall_ms)

    def latest_time_of(self, segment: Segment) -> int:
        """The largest timestamp in a segment, ms; when it was written last if its batches have none."""
        timestamp_ms = segment.max_timestamp()[0]
        return timestamp_ms if timestamp_ms != NO_TIMESTAMP else self._disk.modified_ms(segment.log_path)

    def retire_segments(self, count: int) -> None:
        """Take the oldest segments out of the log. Reads under way go on; the files go by `take_retirement`."""
        retired = self.segments.remove_first(count)
        self.flushes.forget_segments(retired)
        self.retirement.add(retired)

    def take_retirement(self) -> RetireEffect | None:
        """The files of retired segments, unless a flush is under way that may want them, or there are none.

        Its outcome goes to `retirement` or `fail`.
        """
        is_busy = self.flushes.in_flight is not None or self.error is not None
        return None if is_busy else self.retirement.take()

    # --- compaction ---

    def take_swap(self, cleaned: CleanedSegment) -> SwapEffect | None:
        """Have a cleaned segment take its place; None when what it was made of is not there any more, as a whole.

        From here on the log is read with it. The effect's outcome goes to `on_swapped` or `fail`. Raises DiskError.
        """
        assert self._swap is None
        if self.error is None and not self.truncation.is_begun:
            self._swap = begin_swap(self._disk, self, cleaned)
        return self._swap

    def on_swapped(self, effect: SwapEffect) -> None:
        """The files have their names in the log."""
        if self.error is None:
            assert effect is self._swap
            self._swap = None
            effect.segment.let_go_of_files()

    # --- writes ---

    def take_write(self) -> WriteEffect | None:
        """The next write, unless one is under way or nothing waits. Its outcome goes to `on_written` or `fail`."""
        effect = self.writes.next
        if effect is None or self.writes.in_flight is not None or self.error is not None or self.is_held:
            return None
        if effect.creates:
            self.flushes.names_changed()
        if effect.end_offset - self.recovery_point >= self.config.flush_messages:
            if self.flushes.in_flight is not None:
                return None
            effect.flush = self.flushes.begin(effect.end_offset)
        elif effect.segment is self.segments.active:
            effect.index_writes = effect.segment.take_unsaved_indexes()
        self.writes.begin()
        return effect

    def on_written(self, effect: WriteEffect) -> list[object]:
        """`effect` is done, its flush included if it had one; the tokens of the appends that count from now on."""
        if self.error is not None:
            return []
        self.writes.done(effect)
        self.log_end_offset = effect.end_offset
        self.written_position = effect.segment.start_position + effect.position + effect.byte_count
        if effect.flush is not None:
            self.flushes.done(effect.flush)
        elif effect.creates:
            # A flush that was begun meanwhile may have flushed the directory too early.
            self.flushes.names_changed()
        return effect.tokens

    def fail(self, error: DiskError) -> list[object]:
        """Take the log offline; the tokens of all appends that are not done, for a KAFKA_STORAGE_ERROR each."""
        if self.error is None:
            self.error = error
        write, flush = self.writes.in_flight, self.flushes.in_flight
        if write is not None and write.flush is flush:
            flush = None  # A part of the write, and reported with it.
        present = (write, flush, self.retirement.in_flight, self.room.in_flight, self._swap, self.truncation.in_flight)
        self.unreported += [effect for effect in present if effect is not None]
        self.flushes.in_flight = self.retirement.in_flight = self.room.in_flight = self._swap = None
        self.truncation.fail()
        return self.writes.abandon()

    # --- flushes ---

    @property
    def recovery_point(self) -> int:
        """Everything below is durable."""
        return self.flushes.recovery_point

    def take_flush(self, now_ms: int) -> FlushEffect | None:
        """A flush that is due: of closed segments, of everything when flush.ms has passed, of what a crash left behind.

        To be asked for every second or so and after writes. Its outcome goes to `on_flushed` or `fail`.
        """
        is_busy = self.flushes.in_flight is not None or self.is_held or self.truncation.is_begun
        if is_busy or self.error is not None or not self.room.is_log_whole:
            return None
        upto_offset = self.flushes.due_upto(now_ms)
        return None if upto_offset < 0 else self.flushes.begin_due(upto_offset, now_ms)

    def take_closing_flush(self) -> FlushEffect | None:
        """The last flush of a clean shutdown, once the log is idle; None when everything is durable.

        No append may follow.
        """
        assert self.is_idle
        assert self.error is None
        if self.is_durable and self.flushes.snapshot_offset == self.log_end_offset:
            return None
        self.segments.active.seal()
        self._add_snapshot()
        return self.flushes.begin(self.log_end_offset)

    def take_held_flush(self) -> FlushEffect | None:
        """Everything that is written, flushed for a move; None when it is durable already. The log is held and idle."""
        return None if self.is_durable_as_written else self.flushes.begin(self.log_end_offset)

    def relocate(self, directory: str) -> None:
        """The log's files, byte for byte, are in another directory from now on."""
        assert self.is_held
        self.directory = directory
        for segment in self.segments.all():
            segment.relocate(directory)
        self.writes.relocate()
        self.flushes.relocate()

    @property
    def is_durable_as_written(self) -> bool:
        is_flushed = self.recovery_point == self.log_end_offset and self.flushes.are_all_names_durable
        return is_flushed and not self.leader_epochs.unsaved and self.room.is_log_whole

    @property
    def is_durable(self) -> bool:
        """Nothing is left to be flushed."""
        return self.next_offset == self.log_end_offset and self.is_durable_as_written

    @property
    def is_swapping(self) -> bool:
        """A cleaned segment is on its way to its place."""
        return self._swap is not None

    @property
    def is_idle(self) -> bool:
        """Nothing waits for the disk."""
        is_renaming = self.retirement.in_flight is not None or self._swap is not None
        is_busy = is_renaming or self.flushes.in_flight is not None or self.room.in_flight is not None
        has_writes = self.writes.in_flight is not None or (self.writes.next is not None and not self.is_held)
        is_busy = is_busy or self.truncation.is_begun
        return not has_writes and not is_busy and not self.unreported

    def on_flushed(self, effect: FlushEffect) -> None:
        """Everything below `effect.upto_offset` is durable."""
        if self.error is None:
            self.flushes.done(effect)

    # --- reads ---

    def plan_read(
        self, offset: int, max_bytes: int, upto_offset: int, *, min_one_batch: bool
    ) -> ReadPlan | ErrorCode | None:
        """What to read for a fetch from `offset` that may see what is below `upto_offset`.

        None: nothing is there to be read now. OFFSET_OUT_OF_RANGE: `offset` is not in the log. See `ReadPlan` for how
        to go on. Like all reads it raises DiskError when a closed segment's files can't be opened.
        """
        if self.error is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        upto_offset = min(upto_offset, self.log_end_offset)
        if offset >= upto_offset or (max_bytes <= 0 and not min_one_batch):
            return None
        return log_reads.plan_read(self, offset, max_bytes, upto_offset, min_one_batch)

    def finish_read(self, plan: ReadPlan, data: bytes) -> memoryview | ReadEffect | ErrorCode:
        """The batches in the answer to `plan.effect`, or another effect to run before there are any."""
        return log_reads.finish_read(self, plan, data)

    def byte_position_of(self, offset: int) -> int:
        """Where `offset` is in the bytes of the whole log: never less for a later offset, across segments.

        Exact at the log's end, at the start of segments and among the last batches; elsewhere at most about an index
        interval low.
        """
        if offset >= self.log_end_offset:
            return self.written_position
        segment = self.segments.holding(offset)
        return segment.position_in_log(self.segments.batch_position(segment, offset)[0])

    def lookup_timestamp(self, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> TimestampLookup:
        """ListOffsets; see `timestamp_lookup`."""
        return lookup_timestamp(self, timestamp_ms, min(upto_offset, self.log_end_offset), decompress)
