"""Appends: checked, given a place in the log at once, answered when they are written.

Where a topic wants its batches opened (`storage.batch_opening`) they go through `openings` first.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (with the newest known leader and epoch),
NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, INVALID_REQUIRED_ACKS, and those of the log about the batch itself. With
acks=0 a result comes all the same: the gateway closes that client's connection when it tells of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from barnabas.channel.messages import Append, AppendResult
from barnabas.ports.compression import Codecs
from barnabas.wire.errors import ErrorCode
from services.logstore.core.housekeeping import Housekeeping
from services.logstore.core.openings import Openings, WaitingAppend
from services.logstore.core.outbox import Outbox
from services.logstore.core.partition import Partition
from services.logstore.core.replicas import Replicas
from services.logstore.core.storage.batch_opening import Refusal, may_open
from services.logstore.core.storage.effects import OpenBatchEffect, WriteEffect
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.streams import ExchangeStream, PendingAppend

_ACKS = (-1, 0, 1)


class Appends:
    """Every log has one write under way at most; what is appended meanwhile goes out with the next one."""

    def __init__(
        self,
        replicas: Replicas,
        housekeeping: Housekeeping,
        outbox: Outbox,
        codecs: Codecs,
        wrote: Callable[[Partition, int], None],
    ) -> None:
        """`wrote` is told of a partition and where its log ended before it has grown, ahead of any answer."""
        self._replicas = replicas
        self._housekeeping = housekeeping
        self._outbox = outbox
        self._openings = Openings(outbox, codecs, self._opened)
        self._wrote = wrote
        # Logs that were given something to write in this turn; a dict for its order.
        self._to_write: dict[PartitionLog, None] = {}

    def append(self, stream: ExchangeStream, append: Append, wall_ms: int) -> None:
        """Give one batch its place, or refuse it, or have it opened first."""
        partition = self._replicas.by_key.get((append.topic_id, append.partition))
        if partition is None:
            stream.requests_handled += 1
            self._refuse(stream, append, self._replicas.error_of_absent(append.topic_id, append.partition))
            return
        error = partition.check_append(append.leader_epoch, append.acks)
        if error or append.acks not in _ACKS:
            stream.requests_handled += 1
            self._refuse(stream, append, error or ErrorCode.INVALID_REQUIRED_ACKS)
            return
        # While one waits, so do all behind it: a config that no longer asks for it does not change their order.
        if may_open(partition.log.config) or partition in self._openings.lines:
            self._openings.take(WaitingAppend(stream, append, wall_ms), partition)
            return
        self._take(stream, append, memoryview(append.records), wall_ms, partition)

    def _opened(self, waiting: WaitingAppend, partition: Partition, outcome: memoryview | Refusal) -> None:
        """A batch has been looked into. Meanwhile the leader may be another."""
        stream, append = waiting.stream, waiting.append
        error = partition.check_append(append.leader_epoch, append.acks)
        if error is ErrorCode.NONE and not isinstance(outcome, Refusal):
            self._take(stream, append, outcome, waiting.wall_ms, partition)
            return
        stream.requests_handled += 1
        if error:
            self._refuse(stream, append, error)
        elif isinstance(outcome, Refusal):
            self._refuse(stream, append, outcome.error, outcome)

    def on_opened(self, effect: OpenBatchEffect) -> None:
        self._openings.on_opened(effect)

    def _take(
        self, stream: ExchangeStream, append: Append, records: memoryview, wall_ms: int, partition: Partition
    ) -> None:
        stream.requests_handled += 1
        log = partition.log
        result = AppendResult(append.request_id)
        pending = PendingAppend(stream, partition, result, len(append.records))
        # Of the present one, where the gateway knew of an earlier one under which this logstore led already.
        leader_epoch = partition.leader_epoch
        outcome = log.append(records, leader_epoch, wall_ms, pending)
        if isinstance(outcome, ErrorCode):
            self._refuse(stream, append, outcome)
            if log.error is not None:
                self._replicas.disk_failed(log, log.error)
            return
        result.base_offset = outcome.base_offset
        result.log_append_time_ms = outcome.log_append_time_ms
        result.log_start_offset = log.log_start_offset
        result.leader_epoch = leader_epoch
        result.required_offset = outcome.required_offset
        if outcome.is_duplicate:
            result.record_epoch_age = max(0, leader_epoch - log.leader_epochs.epoch_of(outcome.required_offset - 1))
        if outcome.is_written:
            partition.meter.produce_requests += 1
            self._succeed(pending)
        else:
            partition.pending.append(pending)
            self._to_write[log] = None

    def has_writes(self, log: PartitionLog) -> None:
        """Somebody else has given a log something to write."""
        self._to_write[log] = None

    def take_writes(self) -> None:
        """Send out the writes of all logs that got something since."""
        for log in self._to_write:
            effect = log.take_write()
            if effect is not None:
                self._outbox.add_effect(effect)
        self._to_write.clear()

    def on_written(self, effect: WriteEffect) -> None:
        """A write is done: its appends succeed, the high watermark follows, and what has gathered meanwhile is next.

        What topics take in is counted here, write by write: there are many appends in one.
        """
        log = effect.log
        old_log_end_offset = log.log_end_offset
        done = cast("list[PendingAppend]", log.on_written(effect))
        self._to_write[log] = None
        partition = self._replicas.by_log.get(log)
        if partition is None:
            return  # Taken away meanwhile: everything has been answered then.
        self._housekeeping.on_written(effect)
        self._wrote(partition, old_log_end_offset)
        failed = 0
        for pending in done:
            if pending.answered:
                failed += 1  # Counted then.
            else:
                self._succeed(pending)
        meter = partition.meter
        meter.produce_requests += len(done) - failed
        if partition.leading:
            meter.bytes_in += effect.byte_count
            meter.messages_in += log.log_end_offset - old_log_end_offset
        waiting = partition.pending
        while waiting and waiting[0].answered:
            waiting.popleft()

    def on_flushed(self, log: PartitionLog) -> None:
        """A flush is over, for which a write may have waited that brings one of its own (flush.messages)."""
        self._to_write[log] = None

    def _succeed(self, pending: PendingAppend) -> None:
        pending.answered = True
        result = pending.result
        result.committed = pending.partition.high_watermark >= result.required_offset
        stream = pending.stream
        stream.bytes_handled += pending.byte_count
        self._outbox.exchange_response(stream).append_results.append(result)

    def _refuse(self, stream: ExchangeStream, append: Append, error: ErrorCode, refusal: Refusal | None = None) -> None:
        result = AppendResult(append.request_id, error)
        self._replicas.meter_of(append.topic_id, append.partition).produce_failed()
        if refusal is not None:
            result.error_message, result.record_errors = refusal.message, refusal.record_errors
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            result.leader_id, result.leader_epoch = self._replicas.newest_leader(append.topic_id, append.partition)
        stream.bytes_handled += len(append.records)
        self._outbox.exchange_response(stream).append_results.append(result)

    def refuse_all(self, stream: ExchangeStream, appends: Iterable[Append]) -> None:
        """This logstore is about to stop: nothing of these is written."""
        for append in appends:
            stream.requests_handled += 1
            self._refuse(stream, append, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fail_unwritten(self, partition: Partition, tokens: list[object]) -> None:
        """Answer appends that a full disk did not take, and those that wait behind them: a producer's next batch must
        not get in before the one that it has to send again. None of them is in the log.
        """
        self._fail(cast("list[PendingAppend]", tokens), ErrorCode.KAFKA_STORAGE_ERROR)
        for waiting in self._openings.drop(partition):
            waiting.stream.requests_handled += 1
            self._refuse(waiting.stream, waiting.append, ErrorCode.KAFKA_STORAGE_ERROR)
        while partition.pending and partition.pending[0].answered:
            partition.pending.popleft()

    def fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        """Answer at once everything that is not written: under a later epoch nothing of an older one may succeed."""
        pending, partition.pending = partition.pending, type(partition.pending)()
        self._fail(pending, error)
        for waiting in self._openings.drop(partition):
            waiting.stream.requests_handled += 1
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
