"""A partition's log: appends, what of them is written and what is durable, and rolling from segment to segment.

Three offsets tell the story: `next_offset` is assigned in memory, `log_end_offset` is written (and flushed, where
flush.messages asks for it) and may be read, `recovery_point` is durable. One write is under way at a time; whatever
is appended meanwhile goes into the next one. The log never waits: effects go out through `take_write` and
`take_flush`, outcomes come back through `on_…`.

Files of a new segment are made by direct calls, once per segment: no data is involved. Everything that can take as
long as a disk likes (bytes, flushes of a closed segment, snapshots of producers) is in effects.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from crc32c import crc32c

from barnabas.cluster.topic_config import LOG_APPEND_TIME, TopicConfig
from barnabas.ports.disk import Disk, DiskError, DiskFile
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import LENGTH_OVERHEAD_BYTES, PLACE, patch_log_append_time
from services.logstore.core.storage import log_reads
from services.logstore.core.storage.batch_search import Decompress
from services.logstore.core.storage.batch_validation import check_client_batch
from services.logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT, TopicPartition
from services.logstore.core.storage.effects import FileReplacement, FlushEffect, ReadEffect, SmallWrite, WriteEffect
from services.logstore.core.storage.leader_epochs import LeaderEpochs
from services.logstore.core.storage.log_reads import ReadPlan
from services.logstore.core.storage.log_segments import LogSegments
from services.logstore.core.storage.producer_state import SNAPSHOT_SUFFIX, ProducedBatch, ProducerState
from services.logstore.core.storage.segment import RELATIVE_OFFSET_MAX, Segment, file_name
from services.logstore.core.storage.timestamp_lookup import TimestampLookup, lookup_timestamp

# A write holds an IO worker and delays those who came first; past this many bytes the rest waits for the next one.
WRITE_BYTES_MAX = 8 * 1024 * 1024
# Below this a copy is cheaper than one more buffer in the write, and it lets go of the message the batch came in.
COPY_BYTES_MAX = 8 * 1024

_PLACE_BYTES = PLACE.size


@dataclass(slots=True, eq=False)
class AppendOutcome:
    """Where a batch went. It counts once `log_end_offset` reaches `required_offset`.

    `is_written` is only true of a duplicate whose first copy is in the log already: its token never comes back from
    `on_written`. `log_append_time_ms` is -1 unless the topic has LogAppendTime.
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
        self.log_start_offset = segments.first.base_offset
        self.next_offset = next_offset
        self.log_end_offset = next_offset
        self.recovery_point = recovery_point
        self.written_position = segments.end_position
        self.error: DiskError | None = None
        """Why the log is offline; it stays so until its directory is opened anew."""
        self._queue: deque[WriteEffect] = deque()
        self._write_in_flight: WriteEffect | None = None
        self._flush_in_flight: FlushEffect | None = None
        self._last_flush_ms = -1
        self._snapshot_offset = snapshot_offset
        self._snapshots: list[SmallWrite] = []
        self._other_files: list[DiskFile] = []
        self._directory_changed = not is_durable
        self._closed_segments = closed_segments

    def flush_along(self, file: DiskFile) -> None:
        """Have a new `file`, which is the log's but holds none of its batches, flushed with the next flush."""
        self._other_files.append(file)
        self._directory_changed = True

    # --- appends ---

    def append(self, records: memoryview, leader_epoch: int, wall_ms: int, token: object) -> AppendOutcome | ErrorCode:
        """Take a client's batch under `leader_epoch`, which the caller knows to be the present one.

        `records` must stay as it is until the write that carries it is done. `token` comes back then, from
        `on_written` or `fail`. KAFKA_STORAGE_ERROR means that the log is offline: see `error`.
        """
        if self.error is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        config = self.config
        header = check_client_batch(records, config, wall_ms)
        if isinstance(header, ErrorCode):
            return header
        last_offset_delta = header.last_offset_delta
        if header.producer_id >= 0:
            known = self.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, last_offset_delta
            )
            if isinstance(known, ProducedBatch):
                return self._repeat(known, token)
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
        if segment.byte_count and self._is_full(segment, byte_count, last_offset, max_timestamp_ms):
            try:
                segment = self._roll()
            except DiskError as error:
                self.error = error
                return ErrorCode.KAFKA_STORAGE_ERROR
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
        self._enqueue(segment, records, leader_epoch, last_offset + 1, token)
        self.segments.recent.add(base_offset, segment.byte_count)
        segment.add_batch(last_offset, byte_count, max_timestamp_ms)
        self.next_offset = last_offset + 1
        return AppendOutcome(base_offset, last_offset + 1, log_append_time_ms)

    def _enqueue(
        self, segment: Segment, records: memoryview, leader_epoch: int, end_offset: int, token: object
    ) -> None:
        byte_count = len(records)
        queue = self._queue
        effect = queue[-1] if queue else None
        if effect is None or effect.segment is not segment or effect.byte_count + byte_count > WRITE_BYTES_MAX:
            effect = WriteEffect(self, segment, segment.file, segment.byte_count, end_offset)
            queue.append(effect)
        place = PLACE.pack(self.next_offset, byte_count - LENGTH_OVERHEAD_BYTES, leader_epoch)
        if byte_count <= COPY_BYTES_MAX:
            effect.buffers.append(place + records[_PLACE_BYTES:])
        else:
            effect.buffers.append(place)
            effect.buffers.append(records[_PLACE_BYTES:])
        effect.byte_count += byte_count
        effect.end_offset = end_offset
        effect.tokens.append(token)

    def _repeat(self, known: ProducedBatch, token: object) -> AppendOutcome:
        """A duplicate succeeds as its first copy does: now when that is written, else along with it."""
        required_offset = known.last_offset + 1
        log_append_time_ms = known.timestamp_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else -1
        is_written = self.log_end_offset >= required_offset
        if not is_written:
            pending = [self._write_in_flight, *self._queue]
            effect = next(effect for effect in pending if effect is not None and effect.end_offset >= required_offset)
            effect.tokens.append(token)
        return AppendOutcome(known.first_offset, required_offset, log_append_time_ms, True, is_written)

    # --- rolling ---

    def _is_full(self, segment: Segment, byte_count: int, last_offset: int, timestamp_ms: int) -> bool:
        """Whether a batch has to begin a new segment: by size, time, index space or the width of a relative offset."""
        config = self.config
        return (
            segment.byte_count + byte_count > config.segment_bytes
            or segment.indexes_full
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            # A batch without timestamps neither rolls a segment by time nor starts its clock.
            or (
                segment.first_timestamp_ms >= 0
                and timestamp_ms - segment.first_timestamp_ms > self._segment_ms(segment)
            )
        )

    def _segment_ms(self, segment: Segment) -> int:
        """segment.ms, less a jitter of the segment's own, so that partitions made together do not roll together for
        ever.
        """
        segment_ms = self.config.segment_ms
        jitter_ms_max = min(self.config.segment_jitter_ms, segment_ms)
        if jitter_ms_max <= 0:
            return segment_ms
        spread: int = crc32c(f"{self.directory}/{segment.base_offset}".encode())
        return segment_ms - spread % jitter_ms_max

    def _roll(self) -> Segment:
        """Begin a segment at `next_offset`.

        The closed one is flushed by an effect as soon as all of it is written: that can take seconds, and no append has
        to wait for it.
        """
        closing = self.segments.active
        closing.seal()
        self._add_snapshot()
        start_position = closing.start_position + closing.byte_count
        segment = Segment(self._disk, self.directory, self.next_offset, start_position, self.config)
        segment.create()
        self.segments.add(segment)
        self._closed_segments.append((closing, self.next_offset))
        self._directory_changed = True
        return segment

    def _add_snapshot(self) -> None:
        """Have the producers as of `next_offset` written with the next flush."""
        if self._snapshot_offset == self.next_offset:
            return
        file = self._disk.open(f"{self.directory}/{file_name(self.next_offset, SNAPSHOT_SUFFIX)}", create=True)
        self._disk.truncate(file, 0)
        self._snapshots.append(SmallWrite(file, 0, self.producers.snapshot()))
        self._snapshot_offset = self.next_offset
        self._directory_changed = True

    # --- writes ---

    def take_write(self) -> WriteEffect | None:
        """The next write, unless one is under way or nothing waits. Its outcome goes to `on_written` or `fail`."""
        if self._write_in_flight is not None or not self._queue or self.error is not None:
            return None
        effect = self._queue[0]
        if effect.end_offset - self.recovery_point >= self.config.flush_messages:
            if self._flush_in_flight is not None:
                return None
            effect.flush = self._flush_in_flight = self._flush_upto(effect.end_offset)
        elif effect.segment is self.segments.active:
            effect.index_writes = effect.segment.take_unsaved_indexes()
        self._queue.popleft()
        self._write_in_flight = effect
        return effect

    def on_written(self, effect: WriteEffect) -> list[object]:
        """`effect` is done, its flush included if it had one; the tokens of the appends that count from now on."""
        if self.error is not None:
            return []
        assert effect is self._write_in_flight
        self._write_in_flight = None
        self.log_end_offset = effect.end_offset
        self.written_position = effect.segment.start_position + effect.position + effect.byte_count
        if effect.flush is not None:
            self.on_flushed(effect.flush)
        return effect.tokens

    def fail(self, error: DiskError) -> list[object]:
        """Take the log offline; the tokens of all appends that are not done, for a KAFKA_STORAGE_ERROR each."""
        if self.error is None:
            self.error = error
        pending = [self._write_in_flight, *self._queue]
        self._write_in_flight = self._flush_in_flight = None
        self._queue.clear()
        return [token for effect in pending if effect is not None for token in effect.tokens]

    # --- flushes ---

    def take_flush(self, now_ms: int) -> FlushEffect | None:
        """A flush that is due: of closed segments, of everything when flush.ms has passed, of what a crash left behind.

        To be asked for every second or so and after writes. Its outcome goes to `on_flushed` or `fail`.
        """
        if self._flush_in_flight is not None or self.error is not None:
            return None
        if self._last_flush_ms < 0:
            self._last_flush_ms = now_ms
        unflushed_messages = self.log_end_offset - self.recovery_point
        flush_ms_passed = now_ms - self._last_flush_ms >= self.config.flush_ms
        if unflushed_messages >= self.config.flush_messages or (unflushed_messages > 0 and flush_ms_passed):
            upto_offset = self.log_end_offset
        else:
            upto_offset = max((end for _, end in self._closed_segments if end <= self.log_end_offset), default=-1)
            if upto_offset < 0:
                return None
        self._last_flush_ms = now_ms
        self._flush_in_flight = self._flush_upto(upto_offset)
        return self._flush_in_flight

    def take_closing_flush(self) -> FlushEffect | None:
        """The last flush of a clean shutdown, once the log is idle; None when everything is durable.

        No append may follow.
        """
        assert self.is_idle
        assert self.error is None
        is_durable = self._snapshot_offset == self.recovery_point == self.log_end_offset
        if is_durable and not self.leader_epochs.unsaved and not self._directory_changed:
            return None
        self.segments.active.seal()
        self._add_snapshot()
        self._flush_in_flight = self._flush_upto(self.log_end_offset)
        return self._flush_in_flight

    @property
    def is_idle(self) -> bool:
        """Nothing waits for the disk."""
        return self._write_in_flight is None and self._flush_in_flight is None and not self._queue

    def on_flushed(self, effect: FlushEffect) -> None:
        """Everything below `effect.upto_offset` is durable."""
        if self.error is not None:
            return
        assert effect is self._flush_in_flight
        self._flush_in_flight = None
        for segment in effect.closed_segments:
            segment.release_indexes()
        self.recovery_point = max(self.recovery_point, effect.upto_offset)

    def _flush_upto(self, upto_offset: int) -> FlushEffect:
        """Closed segments go first and whole: recovery drops what follows a damaged batch, durable or not."""
        effect = FlushEffect(self, upto_offset)
        if self.leader_epochs.unsaved:
            path = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
            effect.replacements.append(FileReplacement(path, self.leader_epochs.format()))
            self.leader_epochs.unsaved = False
        while self._closed_segments and self._closed_segments[0][1] <= upto_offset:
            effect.closed_segments.append(self._closed_segments.pop(0)[0])
        open_segments = self.segments.overlapping(self.recovery_point, upto_offset)
        for segment in dict.fromkeys(effect.closed_segments + open_segments):
            effect.writes += segment.take_unsaved_indexes()
            effect.files += segment.files()
        effect.writes += self._snapshots
        effect.files += [snapshot.file for snapshot in self._snapshots] + self._other_files
        self._snapshots, self._other_files = [], []
        if self._directory_changed:
            effect.directories = [self.directory, self.directory.rpartition("/")[0]]
            self._directory_changed = False
        return effect

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

    def finish_read(self, plan: ReadPlan, data: bytes) -> memoryview | ReadEffect:
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
        return segment.start_position + self.segments.batch_position(segment, offset)[0]

    def lookup_timestamp(self, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> TimestampLookup:
        """ListOffsets; see `timestamp_lookup`."""
        return lookup_timestamp(self, timestamp_ms, min(upto_offset, self.log_end_offset), decompress)
