"""Appends: checked, given a place in the log at once, answered when they are written.

Where a topic wants its batches opened (`storage.batches.batch_opening`) they go through `batch_validation_queue` first.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (with the newest known leader and epoch),
NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, INVALID_REQUIRED_ACKS, and those of the log about the batch itself. With
acks=0 a result comes all the same: the gateway closes that client's connection when it tells of an error.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from barnabas.channel.messages import Append, AppendResult
from barnabas.ports.compression import Codecs
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.data.batch_validation_queue import BatchValidationQueue, WaitingAppend
from barnabas_logstore.core.maintenance.full_disks import FullDisks
from barnabas_logstore.core.maintenance.housekeeping import Housekeeping
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.batches.batch_opening import Refusal, may_open
from barnabas_logstore.core.storage.effect_execution import EffectResult
from barnabas_logstore.core.storage.effects import WriteEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.completion import Completion
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.streams import ExchangeStream
from barnabas_logstore.core.streams.watches import Watches

_ACKS = (-1, 0, 1)


@dataclass(slots=True, eq=False)
class PendingAppend:
    """An append whose write is under way: the token that the log gives back when it is done."""

    stream: ExchangeStream
    partition: Partition
    result: AppendResult
    byte_count: int
    answered: bool = False


class Appends:
    """Every log has one write under way at most; what is appended meanwhile goes out with the next one."""

    def __init__(
        self,
        replicas: Replicas,
        housekeeping: Housekeeping,
        outbox: Outbox,
        codecs: Codecs,
        full_disks: FullDisks,
        watches: Watches,
        wrote: Callable[[Partition, int], None],
    ) -> None:
        """`wrote` is told of a partition and where its log ended before it has grown, ahead of any answer."""
        self._replicas = replicas
        self._housekeeping = housekeeping
        self._outbox = outbox
        self._validations = BatchValidationQueue(outbox, codecs, self._opened)
        self._full_disks = full_disks
        self._watches = watches
        self._wrote = wrote
        # Appended and not answered yet, in the order of their offsets.
        self._pending: defaultdict[Partition, deque[PendingAppend]] = defaultdict(deque)
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
        if may_open(partition.log.state.config) or partition in self._validations.lines:
            self._validations.add(WaitingAppend(stream, append, wall_ms), partition)
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
        result.log_start_offset = log.state.log_start_offset
        result.leader_epoch = leader_epoch
        result.required_offset = outcome.required_offset
        if outcome.is_duplicate:
            result.record_epoch_age = max(0, leader_epoch - log.leader_epochs.epoch_of(outcome.required_offset - 1))
            if outcome.is_written:
                partition.meter.produce_requests += 1
                self._succeed(pending)
                return
        self._pending[partition].append(pending)
        self._to_write[log] = None

    def pending_of(self, partition: Partition) -> Sequence[PendingAppend]:
        """Appended to the partition and not answered yet, in the order of their offsets; to look at."""
        return self._pending.get(partition, ())

    def has_writes(self, log: PartitionLog) -> None:
        """A log may have something to write: it was appended elsewhere, or what the next write waited for is over."""
        self._to_write[log] = None

    def take_writes(self) -> None:
        """Send out the writes of all logs that got something since."""
        for log in self._to_write:
            effect = log.begin_write()
            if effect is not None:
                self._outbox.add_effect(
                    effect,
                    Completion(
                        partial(self._on_written, log, effect), partial(self._on_write_failed, log, effect), (log,)
                    ),
                )
        self._to_write.clear()

    def _on_written(self, log: PartitionLog, effect: WriteEffect, result: EffectResult) -> None:
        """A write is done: its appends succeed, the high watermark follows, and what has gathered meanwhile is next.

        What topics take in is counted here, write by write: there are many appends in one.
        """
        state = log.state
        old_log_end_offset = state.log_end_offset
        done: list[Any] = log.on_written(effect)
        self._to_write[log] = None
        partition = self._replicas.by_log.get(log)
        if partition is None:
            return  # Taken away meanwhile: everything has been answered then.
        self._housekeeping.on_written(log, effect)
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
        partition.epoch_start_offset = min(partition.epoch_start_offset, log.next_offset)
        self._full_disks.take_back_soon(log)
        self._wrote(partition, log.log_end_offset)
        self._watches.changed(partition)

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

    def _fail_unwritten(self, partition: Partition, tokens: list[object]) -> None:
        """Answer appends that a full disk did not take, and those that wait behind them: a producer's next batch must
        not get in before the one that it has to send again. None of them is in the log.
        """
        self._fail(cast("list[PendingAppend]", tokens), ErrorCode.KAFKA_STORAGE_ERROR)
        for waiting in self._validations.drop(partition):
            waiting.stream.requests_handled += 1
            self._refuse(waiting.stream, waiting.append, ErrorCode.KAFKA_STORAGE_ERROR)
        pending = self._pending[partition]
        while pending and pending[0].answered:
            pending.popleft()

    def fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        """Answer at once everything that is not written: under a later epoch nothing of an older one may succeed."""
        self._fail(self._pending.pop(partition, ()), error)
        for waiting in self._validations.drop(partition):
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
