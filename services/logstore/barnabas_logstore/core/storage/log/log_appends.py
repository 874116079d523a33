"""Append to a partition's log: clients' batches, markers of transactions, and what a leader's log already contains.

Everything gets its offset at once, and becomes part of the next write: one is in progress at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.topic_config import LOG_APPEND_TIME
from barnabas.ports.disk import Disk
from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker, build_marker, marker_of
from barnabas.wire.record_batch import TRANSACTIONAL_BIT, BatchHeader, parse_header, patch_log_append_time
from barnabas_logstore.core.storage.batches.batch_validation import Doubt, check_client_batch
from barnabas_logstore.core.storage.effects import WriteEffect
from barnabas_logstore.core.storage.log.features.log_flushes import LogFlushes
from barnabas_logstore.core.storage.log.features.log_truncation import LogTruncation
from barnabas_logstore.core.storage.log.features.log_writes import LogWrites
from barnabas_logstore.core.storage.log.features.replicated_batches import check_replicated
from barnabas_logstore.core.storage.log.log_rolling import LogRolling
from barnabas_logstore.core.storage.log.log_view import LogView
from barnabas_logstore.core.storage.log.state.log_state import LogInDoubt, LogState
from barnabas_logstore.core.storage.log.state.producer_state import (
    ForgottenBatch,
    ProducedBatch,
    check_marker,
    note_producer,
)
from barnabas_logstore.core.storage.log.state.transactions import index_aborted
from barnabas_logstore.core.storage.log.state.verification_guards import NO_GUARD


@dataclass(slots=True, eq=False)
class AppendOutcome:
    """Where a batch was appended. It counts once `log_end_offset` reaches `required_offset`.

    `is_written` is only true for a duplicate whose first copy is already in the log: its token is not returned by
    `on_written`. `log_append_time_ms` is -1 unless the topic has LogAppendTime. `base_offset` is -1 for a duplicate
    that is in the log and whose offset is no longer known.
    """

    base_offset: int
    required_offset: int
    log_append_time_ms: int
    is_duplicate: bool = False
    is_written: bool = False


class LogAppends(LogView):
    """The part of `PartitionLog` that appends and writes."""

    def __init__(self, disk: Disk, state: LogState) -> None:
        super().__init__(state)
        self.truncation = LogTruncation(state)
        self.writes = LogWrites(state)
        self.flushes = LogFlushes(state)
        self._rolling = LogRolling(disk, state, self.flushes)

    def append(
        self,
        records: memoryview,
        leader_epoch: int,
        wall_ms: int,
        token: object,
        verification_guard: int = NO_GUARD,
        *,
        is_examined: bool = False,
    ) -> AppendOutcome | ErrorCode | Doubt:
        """Append a client's batch under `leader_epoch`, which the caller knows to be the present one.

        `verification_guard`: see `begin_verification`. `is_examined`: see `check_client_batch`.

        `records` must not change until the write that contains it is done. `token`, if any, is returned then, by
        `on_written` or `fail`. KAFKA_STORAGE_ERROR: the log is offline (`error`), or its disk full (`no_room`).

        Raises LogInDoubt if an unexpected exception may have left the log half-changed, as all appends do.
        """
        state = self.state
        if state.error is not None or state.no_room is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        config = state.config
        checked = check_client_batch(records, config, wall_ms, is_examined=is_examined)
        if isinstance(checked, ErrorCode | Doubt):
            return checked
        header, records = checked
        if header.producer_id >= 0:
            known = state.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset_delta
            )
            try:
                if isinstance(known, ProducedBatch):
                    return self._repeat(known.first_offset, known.last_offset + 1, known.timestamp_ms, token)
                if isinstance(known, ForgottenBatch):
                    return self._repeat(-1, known.end_offset_max, -1, token)
            except Exception as fault:
                raise LogInDoubt from fault
            if known is not ErrorCode.NONE:
                return known
            if header.attributes & TRANSACTIONAL_BIT or state.producers.transactions.open:
                entry = state.producers.entry_of(header.producer_id)
                error = state.verification_guards.check(entry, header, verification_guard)
                if error:
                    return error
        try:
            return self._add(header, records, leader_epoch, wall_ms, token)
        except Exception as fault:
            raise LogInDoubt from fault

    def append_of_coordinator(
        self, records: memoryview, leader_epoch: int, wall_ms: int, verification_guard: int = NO_GUARD
    ) -> AppendOutcome | ErrorCode:
        """Append a batch that a coordinator has built: of its own records, or within a producer's transaction, which
        it does not number. Of its bytes only the size is checked.

        INVALID_PRODUCER_EPOCH: the producer has gone on; INVALID_TXN_STATE: its transaction is not confirmed. Else as
        `append`.
        """
        state = self.state
        if state.error is not None or state.no_room is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if len(records) > state.config.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        if len(records) > state.config.segment_bytes:
            return ErrorCode.RECORD_LIST_TOO_LARGE
        header = parse_header(records)
        if not header.has_producer:
            return self._add_surely(header, records, leader_epoch, wall_ms, None)
        entry = state.producers.entry_of(header.producer_id)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        error = state.verification_guards.check(entry, header, verification_guard)
        return error or self._add_surely(header, records, leader_epoch, wall_ms, None)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, wall_ms: int, *, supports_epoch_bump: bool
    ) -> int:
        """Return the guard for the producer's next batch, which begins a transaction; see `verification_guards`."""
        return self.state.verification_guards.begin(
            self.state.producers.entry_of(producer_id),
            producer_id,
            producer_epoch,
            base_sequence,
            wall_ms,
            supports_epoch_bump=supports_epoch_bump,
        )

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: Marker,
        transaction_version: int,
        leader_epoch: int,
        wall_ms: int,
        token: object,
    ) -> AppendOutcome | ErrorCode:
        """Append the marker that ends a producer's transaction, as its coordinator has decided.

        INVALID_PRODUCER_EPOCH: the producer has gone on; TRANSACTION_COORDINATOR_FENCED: a later coordinator has
        written here; KAFKA_STORAGE_ERROR as for `append`, which says what else matters.
        """
        state = self.state
        if state.error is not None or state.no_room is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        error = check_marker(state.producers.entry_of(producer_id), producer_epoch, marker, transaction_version)
        if error:
            return error
        records = memoryview(build_marker(producer_id, producer_epoch, marker, wall_ms))
        return self._add_surely(parse_header(records), records, leader_epoch, wall_ms, token, marker)

    def _add_surely(
        self,
        header: BatchHeader,
        records: memoryview,
        leader_epoch: int,
        wall_ms: int,
        token: object,
        marker: Marker | None = None,
    ) -> AppendOutcome:
        """Append what has been checked. Raises LogInDoubt."""
        try:
            return self._add(header, records, leader_epoch, wall_ms, token, marker)
        except Exception as fault:
            raise LogInDoubt from fault

    def _add(
        self,
        header: BatchHeader,
        records: memoryview,
        leader_epoch: int,
        wall_ms: int,
        token: object,
        marker: Marker | None = None,
    ) -> AppendOutcome:
        """Append what has been checked."""
        state = self.state
        config = state.config
        last_offset_delta = header.last_offset_delta
        max_timestamp_ms = header.max_timestamp
        log_append_time_ms = -1
        if config.message_timestamp_type == LOG_APPEND_TIME:
            stamped = bytearray(records)
            patch_log_append_time(stamped, 0, wall_ms)
            records = memoryview(stamped)
            max_timestamp_ms = log_append_time_ms = wall_ms
        byte_count = len(records)
        base_offset = state.next_offset
        last_offset = base_offset + last_offset_delta
        segment = state.segments.active
        if segment.must_roll(config, byte_count, last_offset, max_timestamp_ms, wall_ms):
            segment = self._rolling.roll()
        if leader_epoch != state.leader_epochs.latest:
            assert leader_epoch > state.leader_epochs.latest, (
                "an append under an old leader epoch must be fenced before"
            )
            state.leader_epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0 and marker is None:
            state.producers.update(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                last_offset_delta,
                last_offset,
                max_timestamp_ms,
            )
        self.writes.add(segment, records, base_offset, last_offset + 1, leader_epoch, token)
        state.segments.recent.add(base_offset, segment.byte_count)
        segment.add_batch(last_offset, byte_count, max_timestamp_ms)
        state.next_offset = last_offset + 1
        if header.attributes & TRANSACTIONAL_BIT:
            state.verification_guards.void(header.producer_id)
            placed = header._replace(base_offset=base_offset, max_timestamp=max_timestamp_ms)
            if marker is None:
                state.producers.begin_transaction(header.producer_id, base_offset)
            else:
                index_aborted(segment, state.producers.end_transaction(placed, marker))
        return AppendOutcome(base_offset, last_offset + 1, log_append_time_ms)

    def _repeat(self, base_offset: int, required_offset: int, timestamp_ms: int, token: object) -> AppendOutcome:
        """A duplicate succeeds when its first copy does: now if that is written, else along with it."""
        state = self.state
        log_append_time_ms = timestamp_ms if state.config.message_timestamp_type == LOG_APPEND_TIME else -1
        # What an earlier process has written it may not have flushed before it died (flush.messages).
        is_flushed = required_offset - state.recovery_point < state.config.flush_messages
        is_written = state.log_end_offset >= required_offset and is_flushed
        if not is_written and self.writes.is_idle:
            self.writes.flush_behind(state.segments.active, state.next_offset, token)
        elif not is_written:
            self.writes.join(required_offset, token)
        return AppendOutcome(base_offset, required_offset, log_append_time_ms, True, is_written)

    def append_replicated(self, records: memoryview, leader_epoch: int, wall_ms: int) -> ErrorCode | str | None:
        """Append the complete batches in `records`; a part of one at the end, as reads leave it, is ignored.

        `leader_epoch` is that of the leader that sent them; no batch may be of a later one. Offsets may jump forward if
        the leader's log has been compacted. Nothing is appended unless everything is valid: otherwise return what is
        wrong, or KAFKA_STORAGE_ERROR while the log accepts no appends. The records must not change until they are
        written.
        """
        state = self.state
        if state.error is not None or state.no_room is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        assert not self.truncation.is_begun
        # An epoch that this replica led without a record must not be listed among those of another leader.
        state.leader_epochs.truncate_from(state.next_offset)
        headers = check_replicated(state, records, leader_epoch)
        if isinstance(headers, str):
            return headers
        state.verification_guards.void_all()
        run_position = position = 0
        for header in headers:
            byte_count = header.size_bytes
            last_offset = header.last_offset
            segment = state.segments.active
            if segment.must_roll(state.config, byte_count, last_offset, header.max_timestamp, wall_ms):
                self._write_run(records[run_position:position])
                run_position = position
                segment = self._rolling.roll()
            state.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
            marker = marker_of(header, records[position : position + byte_count]) if header.is_control else None
            ended = note_producer(state.producers, header, marker)
            if run_position == position:
                # The write begins where the segment ends now.
                self.writes.open_run(segment, state.next_offset)
            state.segments.recent.add(header.base_offset, segment.byte_count)
            segment.add_batch(last_offset, byte_count, header.latest_timestamp)
            if ended is not None:
                index_aborted(segment, ended)
            state.next_offset = last_offset + 1
            position += byte_count
        self._write_run(records[run_position:position])
        return None

    def _write_run(self, run: memoryview) -> None:
        if run:
            self.writes.add_run(run, self.state.next_offset)

    def begin_write(self) -> WriteEffect | None:
        """Return the next write, unless one is in progress or nothing waits. Its outcome goes to `on_written`,
        `on_write_without_room` or `fail`.
        """
        writes = self.writes
        if not writes.queue or writes.in_flight is not None:
            return None
        state = self.state
        if state.error is not None or state.is_held:
            return None
        write = writes.queue[0]
        effect = write.effect
        if effect.creates:
            self.flushes.names_changed()
        if effect.end_offset - state.recovery_point >= state.config.flush_messages:
            if self.flushes.in_flight is not None:
                return None
            effect.flush = self.flushes.begin(effect.end_offset)
        elif write.segment is state.segments.active:
            effect.index_writes = write.segment.take_unsaved_indexes()
        elif write.segment.aborted.index is not None:
            # The cleaner reads it as soon as the marker is committed.
            effect.index_writes = write.segment.take_unsaved_indexes()
        return writes.begin()

    def on_written(self, effect: WriteEffect) -> list[object]:
        """`effect` is done, its flush included if it had one. Return the tokens of the appends that count from now
        on.
        """
        state = self.state
        if state.error is not None:
            return []
        write = self.writes.end(effect)
        state.log_end_offset = effect.end_offset
        state.written_position = write.segment.start_position + effect.position + effect.byte_count
        if effect.flush is not None:
            self.flushes.done(effect.flush)
        elif effect.creates or (effect.index_writes and any(each.creates for each in effect.index_writes)):
            # A flush that was begun meanwhile may have flushed the directory too early.
            self.flushes.names_changed()
        return write.tokens
