"""Appends: checked, assigned an offset in the log at once, answered when they are written.

Batches that have to be opened (`storage.batches.batch_opening`) go through `batch_validation_queue` first: all of a
topic whose config requires it, elsewhere those whose header can't be right.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (with the newest known leader and epoch),
NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, INVALID_REQUIRED_ACKS, and those of the log about the batch itself. With
acks=0 there is a result too: the gateway closes that client's connection if it is an error.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

from barnabas.channel.messages import Append, AppendResult
from barnabas.containment import CONTAINING
from barnabas.ports.compression import Codecs
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.markers import TransactionEnd
from barnabas.wire.record_batch import parse_header
from barnabas_logstore.core.data.batch_validation_queue import BatchValidationQueue, WaitingAppend
from barnabas_logstore.core.data.uncommitted_results import PendingAppend, UncommittedResults
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.maintenance.housekeeping import Housekeeping
from barnabas_logstore.core.replica.containment import APPEND, APPEND_TO_LOG, BEGIN_WRITE, HOLD_RESULT
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.batches.batch_validation import Doubt
from barnabas_logstore.core.storage.effect_results import Refusal
from barnabas_logstore.core.storage.effects import WriteEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.log_state import LogInDoubt
from barnabas_logstore.core.storage.log.state.verification_guards import NO_GUARD
from barnabas_logstore.core.streams.outbox import Completion, Outbox
from barnabas_logstore.core.streams.streams import ExchangeStream
from barnabas_logstore.core.streams.watches import Watches

_ALL = -1
_ACKS = (_ALL, 0, 1)
_UNVERIFIED = (ErrorCode.INVALID_TXN_STATE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
"""What a log says of batches of a transaction whose first one was not confirmed."""


class Appends:
    """Every log has at most one write in progress; what is appended meanwhile is part of the next one."""

    def __init__(
        self,
        replicas: Replicas,
        housekeeping: Housekeeping,
        outbox: Outbox,
        codecs: Codecs,
        full_disks: FullDisks,
        uncommitted: UncommittedResults,
        watches: Watches,
        wrote: Callable[[Partition, int], None],
    ) -> None:
        """`wrote` gets a partition and its previous log end when its log has grown, before any answer."""
        self._replicas = replicas
        self._housekeeping = housekeeping
        self._outbox = outbox
        self._validations = BatchValidationQueue(outbox, codecs, self._opened, self.contain)
        self._full_disks = full_disks
        self._uncommitted = uncommitted
        self._watches = watches
        self._wrote = wrote
        # Appends that are not answered yet, in the order of their offsets.
        self._pending: defaultdict[Partition, deque[PendingAppend]] = defaultdict(deque)
        # Logs that were appended to in this turn; a dict for its order.
        self._to_write: dict[PartitionLog, None] = {}
        # Logs that were written since the last tick.
        self._written: dict[PartitionLog, None] = {}

    def append(self, stream: ExchangeStream, append: Append, wall_ms: int) -> None:
        """Append one batch, or refuse it, or have it opened first."""
        partition = self._replicas.by_key.get((append.topic_id, append.partition))
        if partition is None:
            self._refuse(stream, append, self._replicas.error_of_absent(append.topic_id, append.partition))
            return
        error = partition.check_append(append.leader_epoch, append.acks)
        if error or append.acks not in _ACKS:
            self._refuse(stream, append, error or ErrorCode.INVALID_REQUIRED_ACKS)
            return
        # While one waits, all after it wait: a config that no longer requires it does not change their order.
        if partition.log.state.config.opens_batches or partition in self._validations.lines:
            self._validations.add(WaitingAppend(stream, append, wall_ms), partition)
            return
        self._take(stream, append, memoryview(append.records), wall_ms, partition)

    def _opened(self, waiting: WaitingAppend, partition: Partition, outcome: memoryview | Refusal) -> None:
        """A batch has been opened, or need not be. Meanwhile the leader may have changed."""
        stream, append = waiting.stream, waiting.append
        try:
            error = partition.check_append(append.leader_epoch, append.acks)
            if error:
                self._refuse(stream, append, error)
            elif isinstance(outcome, Refusal):
                self._refuse(stream, append, outcome.error, outcome)
            else:
                self._take(stream, append, outcome, waiting.wall_ms, partition, is_examined=True)
        except Exception as fault:
            with CONTAINING:
                self.contain(stream, append, fault)

    def _take(
        self,
        stream: ExchangeStream,
        append: Append,
        records: memoryview,
        wall_ms: int,
        partition: Partition,
        *,
        is_examined: bool = False,
    ) -> None:
        log = partition.log
        result = AppendResult(append.request_id)
        pending = PendingAppend(stream, partition, result, len(append.records), append.acks == _ALL)
        # Under the present one, if the gateway knew an earlier epoch under which this logstore already led.
        leader_epoch = partition.leader_epoch
        outcome = log.append(
            records, leader_epoch, wall_ms, pending, append.verification_guard, is_examined=is_examined
        )
        if isinstance(outcome, Doubt):
            self._validations.add(WaitingAppend(stream, append, wall_ms), partition)
            return
        if isinstance(outcome, ErrorCode):
            if outcome in _UNVERIFIED and self._asks_for_verification(stream, append, outcome, wall_ms, log):
                return
            self._refuse(stream, append, outcome)
            if log.error is not None:
                self._replicas.disk_failed(log, log.error)
            return
        result.base_offset = outcome.base_offset
        result.log_append_time_ms = outcome.log_append_time_ms
        result.log_start_offset = log.state.log_start_offset
        result.leader_epoch = leader_epoch
        result.required_offset = outcome.required_offset
        if outcome.is_duplicate:
            result.record_epoch_age = max(0, leader_epoch - log.leader_epochs.epoch_of(outcome.required_offset - 1))
            if outcome.is_written:
                partition.meter.produce_requests += 1
                self._succeed(pending)
                stream.requests_handled += 1
                return
        self._pending[partition].append(pending)
        stream.requests_handled += 1
        self._to_write[log] = None

    def _asks_for_verification(
        self, stream: ExchangeStream, append: Append, error: ErrorCode, wall_ms: int, log: PartitionLog
    ) -> bool:
        """Return a guard, instead of an error, for a batch that would begin a transaction, and for those that have come
        right behind it: the gateway asks the transaction's coordinator, then sends them again in their order. A batch
        whose guard was voided meanwhile, by the marker of the transaction before, gets the present one.
        """
        header = parse_header(memoryview(append.records))
        if not header.is_transactional:
            return False
        guard = log.begin_verification(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            wall_ms,
            supports_epoch_bump=append.supports_epoch_bump,
        )
        if guard in (NO_GUARD, append.verification_guard):
            return False
        self._answer(stream, append, AppendResult(append.request_id, error, verification_guard=guard))
        return True

    def append_marker(self, partition: Partition, ended: TransactionEnd, wall_ms: int) -> int | Refused:
        """Append a marker to a partition that is led here; return the high watermark that commits it."""
        log = partition.log
        try:
            outcome = log.append_marker(
                ended.producer_id,
                ended.producer_epoch,
                ended.marker,
                ended.transaction_version,
                partition.leader_epoch,
                wall_ms,
                None,
            )
        except Exception as doubt:
            with CONTAINING:
                self._replicas.contained.log_in_doubt(APPEND_TO_LOG, doubt, log)
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(outcome, ErrorCode):
            if log.error is not None:
                self._replicas.disk_failed(log, log.error)
            return Refused(outcome)
        self._to_write[log] = None
        return outcome.required_offset

    def take_written(self) -> Iterable[PartitionLog]:
        """Return the logs that were written since they were last taken."""
        written, self._written = self._written, {}
        return written

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing was written since the last tick."""
        return not self._written

    def pending_of(self, partition: Partition) -> Sequence[PendingAppend]:
        """The appends to the partition that are not answered yet, in the order of their offsets; read only."""
        return self._pending.get(partition, ())

    def has_writes(self, log: PartitionLog) -> None:
        """A log may have something to write: it was appended to elsewhere, or what the next write waited for is
        over.
        """
        self._to_write[log] = None

    def begin_writes(self) -> None:
        """Begin the writes of all logs that were appended to."""
        for log in self._to_write:
            try:
                effect = log.begin_write()
            except Exception as error:
                with CONTAINING:
                    self._replicas.contained.log_in_doubt(BEGIN_WRITE, error, log)
                continue
            if effect is not None:
                self._outbox.add_effect(
                    effect,
                    Completion(
                        partial(self._on_written, log, effect), partial(self._on_write_failed, log, effect), (log,)
                    ),
                )
        self._to_write.clear()

    def _on_written(self, log: PartitionLog, effect: WriteEffect, result: object) -> None:
        """A write is done: its appends succeed, the high watermark may move, and what has accumulated meanwhile is
        next.

        Bytes and messages of topics are counted here, per write: one write contains many appends.
        """
        state = log.state
        old_log_end_offset = state.log_end_offset
        done: list[Any] = log.on_written(effect)
        self._to_write[log] = None
        partition = self._replicas.by_log.get(log)
        if partition is None:
            return  # removed meanwhile: everything was answered then
        self._written[log] = None
        if effect.flush is not None:
            self._housekeeping.written_and_flushed(log)
        self._wrote(partition, old_log_end_offset)
        failed = 0
        for pending in done:
            if pending.answered:
                failed += 1  # counted then
            else:
                self._succeed(pending)
        meter = partition.meter
        meter.produce_requests += len(done) - failed
        if partition.leading:
            meter.bytes_in += effect.byte_count
            meter.messages_in += state.log_end_offset - old_log_end_offset
        waiting = self._pending[partition]
        while waiting and waiting[0].answered:
            waiting.popleft()

    def _on_write_failed(self, log: PartitionLog, effect: WriteEffect, error: DiskError) -> None:
        self._full_disks.log_effect_failed(log, error, partial(self._undo_write, log, effect, error))
        if error.is_lack_of_room:
            self.has_writes(log)

    def _undo_write(self, log: PartitionLog, effect: WriteEffect, error: DiskError) -> None:
        partition = self._replicas.by_log[log]
        self._fail_unwritten(partition, log.on_write_without_room(effect, error))
        partition.taken_back()
        self._full_disks.take_back_soon(log)
        self._wrote(partition, log.log_end_offset)
        self._watches.changed(partition)

    def _succeed(self, pending: PendingAppend) -> None:
        result = pending.result
        result.committed = pending.partition.high_watermark >= result.required_offset
        is_held = False
        if not result.committed and pending.awaits_commit:
            try:
                is_held = self._uncommitted.hold(pending)
            except Exception as error:
                is_held = pending.is_held
                self._replicas.contained.contain(HOLD_RESULT, error, _name_request(pending.stream, result.request_id))
        stream = pending.stream
        if not is_held:
            self._outbox.exchange_response(stream).append_results.append(result)
        stream.bytes_handled += pending.byte_count
        pending.answered = True

    def _refuse(self, stream: ExchangeStream, append: Append, error: ErrorCode, refusal: Refusal | None = None) -> None:
        result = AppendResult(append.request_id, error)
        self._replicas.meter_of(append.topic_id, append.partition).produce_failed()
        if refusal is not None:
            result.error_message, result.record_errors = refusal.message, refusal.record_errors
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            result.leader_id, result.leader_epoch = self._replicas.newest_leader(append.topic_id, append.partition)
        self._answer(stream, append, result)

    def _answer(self, stream: ExchangeStream, append: Append, result: AppendResult) -> None:
        """Answer an append that has left nothing in its log, which returns its credit."""
        self._outbox.exchange_response(stream).append_results.append(result)
        stream.requests_handled += 1
        stream.bytes_handled += len(append.records)

    def contain(self, stream: ExchangeStream, append: Append, error: Exception) -> None:
        """An append was ended by an unexpected exception. It alone is answered, once, if it is nowhere yet; else its
        partition is in doubt, and what waits there is answered with that.
        """
        contained = self._replicas.contained
        partition = self._replicas.by_key.get((append.topic_id, append.partition))
        waits = partition is not None and self._waits(stream, append, partition)
        if partition is not None and (waits or isinstance(error, LogInDoubt) or _is_in_log(stream, append, partition)):
            with CONTAINING:
                contained.log_in_doubt(APPEND_TO_LOG, error, partition.log)
            error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            contained.contain(APPEND, error, _name_request(stream, append.request_id) | _name_partition(append))
            error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        if not waits and not _is_answered(stream, append.request_id):
            self._answer(stream, append, AppendResult(append.request_id, error_code))

    def _waits(self, stream: ExchangeStream, append: Append, partition: Partition) -> bool:
        """Whether an append is in its log, or waits for it or for its commit, so that it will be answered."""
        pending = [*self.pending_of(partition), *self._uncommitted.held_of(partition)]
        is_pending = any(each.stream is stream and each.result.request_id == append.request_id for each in pending)
        return is_pending or any(each.append is append for each in self._validations.lines.get(partition, ()))

    def refuse_all(self, stream: ExchangeStream, appends: Iterable[Append]) -> None:
        """This logstore is about to stop: refuse these appends, of which nothing is written."""
        for append in appends:
            self._refuse(stream, append, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _fail_unwritten(self, partition: Partition, tokens: list[object]) -> None:
        """Answer appends that a full disk did not accept, and those that wait behind them: a producer's next batch must
        not be appended before the one that it has to send again. None of them is in the log.
        """
        self._fail(cast("list[PendingAppend]", tokens), ErrorCode.KAFKA_STORAGE_ERROR)
        for waiting in self._validations.drop(partition):
            self._refuse(waiting.stream, waiting.append, ErrorCode.KAFKA_STORAGE_ERROR)
        pending = self._pending[partition]
        while pending and pending[0].answered:
            pending.popleft()

    def fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        """Answer at once everything that is not written: under a later epoch no append of an older one may succeed.
        What is written and not committed may be, at another leader.
        """
        self._uncommitted.release(partition)
        self._fail(self._pending.pop(partition, ()), error)
        for waiting in self._validations.drop(partition):
            self._refuse(waiting.stream, waiting.append, error)

    def _fail(self, appends: Iterable[PendingAppend], error: ErrorCode) -> None:
        for pending in appends:
            if pending.answered:
                continue
            pending.answered = True
            partition = pending.partition
            partition.meter.produce_failed()
            result = AppendResult(pending.result.request_id, error)
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                newest = self._replicas.newest_leader(partition.topic_id, partition.partition)
                result.leader_id, result.leader_epoch = newest
            pending.stream.bytes_handled += pending.byte_count
            self._outbox.exchange_response(pending.stream).append_results.append(result)


def _name_request(stream: ExchangeStream, request_id: int) -> dict[str, str | int]:
    return {"stream_id": stream.stream_id, "request_id": request_id}


def _name_partition(append: Append) -> dict[str, str | int]:
    return {"topic_id": append.topic_id.hex(), "partition": append.partition, "acks": append.acks}


def _is_in_log(stream: ExchangeStream, append: Append, partition: Partition) -> bool:
    """Whether a batch is part of a write of its log, though nothing here knows of it yet."""
    return any(
        isinstance(token, PendingAppend) and token.stream is stream and token.result.request_id == append.request_id
        for token in partition.log.writes.tokens
    )


def _is_answered(stream: ExchangeStream, request_id: int) -> bool:
    results = [] if stream.response is None else stream.response.append_results
    return any(each.request_id == request_id for each in results)
