"""A partition's log: appends (`log_appends`), what of them is written and what is durable, and what its features do to
each other.

Three offsets describe its state: `next_offset` is assigned in memory, `log_end_offset` is written (and flushed, if
flush.messages requires it) and may be read, `recovery_point` is durable. One write is in progress at a time; whatever
is appended meanwhile is part of the next one. The log never waits: effects are returned by `begin_write` and
`begin_due_flush`, and outcomes come back through `on_…`.

Everything that can take as long as a disk likes (bytes, flushes of a closed segment, snapshots of producers) is in
effects. How a segment follows another: `log_rolling`.
"""

from __future__ import annotations

from itertools import pairwise

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk, DiskError
from barnabas.wire.errors import Refused
from barnabas_logstore.core.storage.compaction.orders import CleanedSegment
from barnabas_logstore.core.storage.effects import (
    FlushEffect,
    RetireEffect,
    StorageEffect,
    SwapEffect,
    TakeBackEffect,
    TruncateEffect,
    VolumeFlushEffect,
    WriteEffect,
)
from barnabas_logstore.core.storage.log.features import log_retention, log_start
from barnabas_logstore.core.storage.log.features.disk_full_recovery import DiskFullRecovery
from barnabas_logstore.core.storage.log.features.log_retention import RetentionOutcome, Rule
from barnabas_logstore.core.storage.log.features.log_retirement import LogRetirement
from barnabas_logstore.core.storage.log.features.log_swap import LogSwap
from barnabas_logstore.core.storage.log.log_appends import AppendOutcome, LogAppends
from barnabas_logstore.core.storage.log.state.log_state import LogState

__all__ = ["AppendOutcome", "PartitionLog"]


class PartitionLog(LogAppends):
    """Created by `recovery.open_log`. `state` is shared by the features of the log, and written only by them and
    this.
    """

    def __init__(self, disk: Disk, state: LogState) -> None:
        super().__init__(disk, state)
        self.unreported: list[StorageEffect] = []
        """Effects that were in progress when it went offline, and may still change the files of these names."""
        self.disk_full = DiskFullRecovery(state)
        self.retirement = LogRetirement(state)
        self.swap = LogSwap(disk, state)

    @property
    def is_truncating(self) -> bool:
        """It is about to be truncated, or being truncated: it may neither grow nor be flushed."""
        return self.truncation.is_begun

    # --- what the cluster and its operators say ---

    def apply_config(self, config: TopicConfig) -> None:
        self.state.config = config

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """This replica leads under `leader_epoch` from now on."""
        self.state.leader_epochs.assign(leader_epoch, self.state.next_offset)
        self.state.verification_guards.begin_epoch(leader_epoch)

    def compacted_upto(self, offset: int) -> None:
        """Everything below `offset` has been compacted; 0: nothing has."""
        self.state.first_dirty_offset = offset

    def begin_cleaning(self) -> None:
        self.state.is_being_cleaned = True

    def end_cleaning(self) -> None:
        self.state.is_being_cleaned = False

    def flush_along(self, path: str, content: bytes) -> None:
        """Write a new file, which is the log's but contains none of its batches, once more with the next flush, and
        flush it.
        """
        self.flushes.add_file(path, content)

    # --- the log's start ---

    def delete_records(self, offset: int, high_watermark: int) -> int | Refused:
        """DeleteRecords: return the new log start, which is at least `offset` (-1: the high watermark).

        OFFSET_OUT_OF_RANGE past the high watermark; POLICY_VIOLATION if cleanup.policy lacks delete;
        KAFKA_STORAGE_ERROR. What a crash may undo: see `log_start`.
        """
        return log_start.delete_records(self.state, offset, high_watermark)

    def move_log_start(self, offset: int) -> None:
        """Move it as the leader has; never back."""
        self.state.move_log_start(offset)

    def apply_retention(self, high_watermark: int, wall_ms: int) -> RetentionOutcome:
        """Remove expired segments: see `log_retention`. Raises DiskError."""
        is_busy = self.swap.in_flight is not None or self.is_held or self.truncation.is_begun
        if self.error is not None or is_busy or not self.disk_full.is_log_whole:
            return RetentionOutcome.NOTHING
        outcome, count_before = RetentionOutcome.NOTHING, len(self.segments)
        for rule in log_retention.rules_of(self.state):
            count_max = log_retention.SEGMENTS_MAX + len(self.segments) - count_before
            outcome = max(outcome, self._retire(high_watermark, rule, wall_ms, count_max))
            if outcome >= RetentionOutcome.MORE:
                break
        return outcome

    def _retire(self, high_watermark: int, rule: Rule, wall_ms: int, count_max: int) -> RetentionOutcome:
        state, is_over = self.state, rule(self.state, wall_ms)
        upto_offset = min(high_watermark, self.flushes.whole_segments_upto)
        count = log_retention.count_over(state, upto_offset, is_over, count_max)
        if count:
            self.retire_segments(count)
        if count == count_max:
            return RetentionOutcome.MORE
        if log_retention.is_last_over(state, high_watermark, is_over) and self._try_to_roll():
            # The offsets of a log are kept in the name of its active segment, so another one has to exist first.
            return RetentionOutcome.ROLLED
        return RetentionOutcome.RETIRED if count else RetentionOutcome.NOTHING

    def _try_to_roll(self) -> bool:
        """Begin a segment while nothing is appended, so that the one before it can go.

        Return False if not possible now, because the disk is busy or full. Raises DiskError.
        """
        return self.is_idle and self.state.no_room is None and self._rolling.try_to_roll()

    def retire_segments(self, count: int) -> None:
        """Remove the oldest segments from the log. Reads in progress continue; `begin_retirement` renames the files."""
        retired = self.state.segments.remove_first(count)
        self.flushes.forget_segments(retired)
        self.retirement.add(retired)

    def begin_retirement(self) -> RetireEffect | None:
        """Rename the files of retired segments, unless a flush in progress may need them, or there are none.

        Its outcome goes to `retirement` or `fail`.
        """
        is_busy = self.flushes.in_flight is not None or self.error is not None
        return None if is_busy else self.retirement.begin()

    # --- compaction ---

    def begin_swap(self, cleaned: CleanedSegment) -> SwapEffect | None:
        """See `LogSwap.begin`. The effect's outcome goes to `on_swapped` or `fail`. Raises DiskError."""
        if self.state.error is not None or self.truncation.is_begun:
            return None
        return self.swap.begin(cleaned)

    def on_swapped(self, effect: SwapEffect) -> None:
        """The files have their final names."""
        if self.error is None:
            self.swap.end(effect)

    # --- writes ---

    def on_write_without_room(self, effect: WriteEffect, error: DiskError) -> list[object]:
        """Roll back what is not written. Return the tokens of its appends, for a KAFKA_STORAGE_ERROR each.
        `begin_taking_back` returns what has to be done on the disk.
        """
        self.disk_full.refuse_appends(error)
        if effect.flush is not None:
            self.flushes.undo(effect.flush)
        if not effect.byte_count:
            # A flush for a batch that was repeated: nothing is to be rolled back.
            return self.writes.end(effect).tokens
        write = self.writes.in_flight
        assert write is not None
        tokens = self.writes.abandon()
        self.disk_full.forget_unwritten(
            write.segment,
            write.mark,
            is_made=not effect.creates,
            new_files=[] if effect.flush is None else effect.flush.new_files,
        )
        self.flushes.take_back(self.state.log_end_offset)
        return tokens

    def begin_taking_back(self) -> TakeBackEffect | None:
        """Return what has to be done on the disk after `on_write_without_room`, once nothing else is in progress there.
        Its outcome goes to `disk_full` or `fail`.
        """
        return self.disk_full.begin() if self.is_idle else None

    def fail(self, error: DiskError) -> list[object]:
        """Take the log offline. Return the tokens of all appends that are not done, for a KAFKA_STORAGE_ERROR each."""
        if self.state.error is None:
            self.state.error = error
        write, flush = self.writes.in_flight, self.flushes.in_flight
        write_effect = None if write is None else write.effect
        if write_effect is not None and write_effect.flush is flush:
            flush = None  # a part of the write, and reported with it
        present: list[StorageEffect | None] = [write_effect, flush, self.retirement.in_flight]
        present += [self.disk_full.in_flight, self.swap.in_flight, self.truncation.in_flight]
        self.unreported += [effect for effect in present if effect is not None]
        self.flushes.in_flight = self.retirement.in_flight = self.disk_full.in_flight = None
        self.swap.abandon()
        self.truncation.abandon()
        return self.writes.abandon()

    def effect_ended(self, effect: StorageEffect) -> None:
        """An effect of this log, or a flush of its volume, has ended, in any state of the log."""
        ended = effect.flushes if isinstance(effect, VolumeFlushEffect) else [effect]
        self.unreported = [each for each in self.unreported if each not in ended]

    # --- flushes ---

    def begin_due_flush(self, now_ms: int) -> FlushEffect | None:
        """Return a flush that is due: of closed segments, of everything if flush.ms has passed, of what a crash left
        behind.

        Call about every second and after writes. Its outcome goes to `on_flushed`, `on_flush_without_room` or `fail`.
        """
        is_busy = self.flushes.in_flight is not None or self.is_held or self.truncation.is_begun
        if is_busy or self.error is not None or not self.disk_full.is_log_whole:
            return None
        upto_offset = self.flushes.due_upto(now_ms)
        return None if upto_offset < 0 else self.flushes.begin_due(upto_offset, now_ms)

    def begin_closing_flush(self) -> FlushEffect | None:
        """Return the last flush of a clean shutdown, once the log is idle; None if everything is durable.

        No append may follow.
        """
        assert self.is_idle
        assert self.error is None
        if self.is_durable and self.flushes.snapshot_offset == self.log_end_offset:
            return None
        self.segments.active.seal()
        self._rolling.add_snapshot()
        return self.flushes.begin(self.log_end_offset)

    def begin_held_flush(self) -> FlushEffect | None:
        """Flush everything that is written, for a move; None if it is already durable. The log is held and idle."""
        return None if self.is_durable_as_written else self.flushes.begin(self.log_end_offset)

    def on_flushed(self, effect: FlushEffect) -> None:
        """Everything below `effect.upto_offset` is durable."""
        if self.error is None:
            self.flushes.done(effect)

    def on_flush_without_room(self, effect: FlushEffect, error: DiskError) -> None:
        """A separate flush found no space for what it has to write first: it is begun again when it is due."""
        self.disk_full.refuse_appends(error)
        self.flushes.undo(effect)

    @property
    def is_durable_as_written(self) -> bool:
        is_flushed = self.recovery_point == self.log_end_offset and self.flushes.are_all_names_durable
        return is_flushed and not self.leader_epochs.unsaved and self.disk_full.is_log_whole

    @property
    def is_durable(self) -> bool:
        """Whether nothing is left to be flushed."""
        return self.next_offset == self.log_end_offset and self.is_durable_as_written

    @property
    def is_swapping(self) -> bool:
        """Whether a cleaned segment is being swapped in."""
        return self.swap.in_flight is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for the disk."""
        is_renaming = self.retirement.in_flight is not None or self.swap.in_flight is not None
        is_busy = is_renaming or self.flushes.in_flight is not None or self.disk_full.in_flight is not None
        has_writes = self.writes.in_flight is not None or (len(self.writes.queue) > 0 and not self.is_held)
        is_busy = is_busy or self.truncation.is_begun
        return not has_writes and not is_busy and not self.unreported

    # --- moves and cuts ---

    def hold(self) -> None:
        """Begin nothing new on the disk until `release`: the log is about to be moved to another log directory."""
        self.state.is_held = True

    def release(self) -> None:
        self.state.is_held = False

    def relocate(self, directory: str) -> None:
        """The log's files, byte for byte, are in another directory from now on."""
        assert self.is_held
        self.state.relocate(directory)
        for segment in self.segments.all():
            segment.relocate(directory)
        self.writes.relocate()
        self.flushes.relocate()

    def begin_truncation(self, offset: int, *, truncate_fully: bool = False) -> bool:
        """Prepare to truncate at `offset`; before the log's start that means to start over. `truncation.begin_cut`
        truncates.

        Return False if something else is in progress now.
        """
        is_free = self.is_idle and not self.is_held and self.retirement.is_idle and self.disk_full.is_log_whole
        if not is_free or self.is_being_cleaned or self.error is not None:
            return False
        self.flushes.lower_recovery_point(self.truncation.begin(offset, truncate_fully=truncate_fully))
        return True

    def on_truncated(self, effect: TruncateEffect, opened: LogState) -> None:
        """The log is what recovery has found."""
        state = self.state
        opened.producers.recall(state.producers, opened.next_offset)
        state.become(opened)
        self.flushes.log_opened(opened.unflushed)
        for segment, following in pairwise(state.segments.all()):
            if following.base_offset > state.recovery_point:
                self.flushes.add_closed_segment(segment, following.base_offset)
        # Snapshots that were to be written with the next flush are dropped, and retention depends on them.
        self._rolling.add_snapshot_again()
        # Last: until then the log in memory is not what is on the disk.
        self.truncation.end(effect)
