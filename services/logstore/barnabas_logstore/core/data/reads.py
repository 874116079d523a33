"""Reads for gateways: planned with the indexes in memory, done by IO workers, assembled in the requested order.

`bytes_max` is spent over the partitions in request order, and the first one with any data returns at least one batch,
however large (KIP-74). A read that gives its client's rack may get the name of a nearer replica instead of records, and
is answered by followers too, up to their own high watermarks (KIP-392).

Errors per partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
(KIP-320), OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from barnabas.channel.assembly import ReadResult
from barnabas.channel.messages import ABORTED_TRANSACTION, Read, ReadPartition, ReadPartitionResult
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange
from barnabas_logstore.core.replica.containment import READ, READ_BYTES
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replica_selection import ReplicaSelector, preferred_read_replica
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.effect_results import AbortedTransaction, FoundAborted, FoundBatches, NotFound
from barnabas_logstore.core.storage.effects import FindAbortedEffect, ReadBatchesEffect
from barnabas_logstore.core.storage.log.features.aborted_lookup import AbortedLookup
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.streams.outbox import Completion, Outbox
from barnabas_logstore.core.streams.streams import PendingRead, ReadStream

READ_COMMITTED = 1
# Kafka's own bound on what one fetch may request of a broker (fetch.max.bytes): a peer never decides how much memory is
# used.
READ_BYTES_MAX = 55 * 1024 * 1024

# With these errors the answer names the newest known leader (KIP-951).
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(slots=True, eq=False)
class _Range:
    """The bytes that one partition of a read waits for."""

    pending: PendingRead
    result: ReadPartitionResult
    partition: Partition
    plan: ReadPlan
    aborted: AbortedLookup | None = None
    """Finds the aborted transactions of the records, once these have been read."""


def _pack(aborted: list[AbortedTransaction]) -> bytes:
    return b"".join([ABORTED_TRANSACTION.pack(each.producer_id, each.first_offset) for each in aborted])


class Reads:
    def __init__(self, replicas: Replicas, outbox: Outbox, selector: ReplicaSelector, range_bytes_min: int) -> None:
        """From `range_bytes_min` on, records are answered as ranges of files to who accepts them."""
        self._replicas = replicas
        self._outbox = outbox
        self._selector = selector
        self._range_bytes_min = range_bytes_min
        self._ranges: dict[ReadBatchesEffect | FindAbortedEffect, _Range] = {}

    def accept(self, stream: ReadStream, read: Read) -> PendingRead:
        """A read has arrived and has not begun; a cancel finds it from here on."""
        pending = PendingRead(stream, read, min(read.bytes_max, READ_BYTES_MAX))
        stream.unanswered[read.request_id] = pending
        return pending

    def cancel(self, stream: ReadStream, request_id: int) -> None:
        """The caller is gone: no answer. A read that was answered meanwhile is not known any more."""
        pending = stream.unanswered.pop(request_id, None)
        stream.timed.pop(request_id, None)
        if pending is not None:
            pending.dropped = True
            stream.requests_handled += 1
            # A message for its credit: otherwise a caller that cancels everything would get none back.
            self._outbox.read_response(stream)

    def close(self, stream: ReadStream) -> None:
        for pending in stream.unanswered.values():
            pending.dropped = True
        stream.unanswered.clear()

    def plan(self, pending: PendingRead, count_max: int) -> int:
        """Plan at most `count_max` more partitions; return how many were. All ranges are requested once
        `is_planned`.
        """
        if pending.dropped:
            pending.is_planned = True
            return 0
        partitions = pending.read.partitions
        first = len(pending.results)
        last = min(first + count_max, len(partitions))
        for index in range(first, last):
            result = ReadPartitionResult(index)
            pending.results.append(result)
            try:
                error = self._plan_partition(pending, result, partitions[index])
            except Exception as fault:
                self._forget_ranges(pending, result)
                error = self._failed(pending, partitions[index], fault)
            if error:
                self._refuse(result, partitions[index].topic_id, partitions[index].partition, error)
        pending.is_planned = last == len(partitions)
        self._answer_if_done(pending)
        return last - first

    def _plan_partition(self, pending: PendingRead, result: ReadPartitionResult, asked: ReadPartition) -> ErrorCode:
        partition = self._replicas.by_key.get((asked.topic_id, asked.partition))
        if partition is None:
            self._replicas.meters.absent.fetch_requests += 1
            return self._replicas.error_of_absent(asked.topic_id, asked.partition)
        partition.meter.fetch_requests += 1
        rack_id = pending.read.rack_id
        if rack_id and not partition.leading:
            error = partition.check_follower_epoch(asked.current_leader_epoch)
        else:
            error = partition.check_leader_epoch(asked.current_leader_epoch)
        if error:
            return error
        log = partition.log
        result.high_watermark = partition.high_watermark
        result.last_stable_offset = partition.last_stable_offset
        result.log_start_offset = log.log_start_offset
        result.leader_id, result.leader_epoch = partition.leader_id, partition.leader_epoch
        if rack_id and partition.leading and self._selector is ReplicaSelector.RACK_AWARE:
            brokers = self._replicas.image.brokers
            preferred = preferred_read_replica(partition, rack_id, asked.fetch_offset, brokers)
            if preferred is not None:
                result.preferred_read_replica = preferred
                return ErrorCode.NONE
        only_stable = pending.read.isolation_level == READ_COMMITTED
        upto_offset = partition.last_stable_offset if only_stable else partition.high_watermark
        bytes_max = min(asked.partition_bytes_max, pending.bytes_left)
        try:
            plan = log.plan_read(
                asked.fetch_offset,
                bytes_max,
                upto_offset,
                min_one_batch=not pending.any_records,
                range_bytes_min=self._range_bytes_min if pending.read.accepts_ranges else 0,
            )
            if plan is None:
                result.fetch_position = log.fetch_position_of(asked.fetch_offset, upto_offset)
                return ErrorCode.NONE
        except DiskError as disk_error:
            self._replicas.disk_failed(log, disk_error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(plan, ErrorCode):
            return plan
        pending.any_records = True
        pending.bytes_left -= plan.bytes_max
        pending.outstanding += 1
        self._read(_Range(pending, result, partition, plan), plan.effect)
        return ErrorCode.NONE

    def contain(self, pending: PendingRead, error: Exception) -> None:
        """A read was ended by an unexpected exception while it was planned: answer it, unless it is answered."""
        self._replicas.contained.contain(READ, error, _name(pending))
        pending.is_planned = True
        if pending.stream.unanswered.get(pending.read.request_id) is not pending:
            return
        self._forget_ranges(pending, None)
        pending.outstanding = 0
        pending.results = [
            ReadPartitionResult(index, ErrorCode.UNKNOWN_SERVER_ERROR) for index in range(len(pending.read.partitions))
        ]
        self._answer_if_done(pending)

    def _failed(self, pending: PendingRead, asked: ReadPartition, fault: Exception) -> ErrorCode:
        """One partition of a read was ended by an unexpected exception: return its error."""
        which: dict[str, str | int] = {
            "topic_id": asked.topic_id.hex(),
            "partition": asked.partition,
            "fetch_offset": asked.fetch_offset,
        }
        self._replicas.contained.contain(READ, fault, _name(pending) | which)
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def _forget_ranges(self, pending: PendingRead, result: ReadPartitionResult | None) -> None:
        """Await no bytes for one result of a read; None: for any of them."""
        for effect, awaited in list(self._ranges.items()):
            if awaited.pending is pending and (result is None or awaited.result is result):
                del self._ranges[effect]
                pending.outstanding -= 1

    def _read(self, awaited: _Range, effect: ReadBatchesEffect) -> None:
        self._ranges[effect] = awaited
        failed = partial(self._replicas.log_effect_failed, awaited.partition.log)
        self._outbox.add_effect(effect, Completion(lambda found: self._on_bytes(effect, found), failed))

    def _on_bytes(self, effect: ReadBatchesEffect, found: FoundBatches | NotFound) -> None:
        """The bytes of a range have arrived, unless it has failed meanwhile."""
        awaited = self._ranges.pop(effect, None)
        if awaited is None or awaited.pending.dropped:
            return
        partition, plan = awaited.partition, awaited.plan
        aborted: AbortedLookup | list[AbortedTransaction] | ErrorCode = []
        try:
            assert isinstance(found, effect.result.types)
            records = partition.log.finish_read(plan, found)
            if awaited.pending.read.isolation_level == READ_COMMITTED and isinstance(records, memoryview | FileRange):
                aborted = partition.log.aborted_transactions(plan, records)
        except DiskError as error:
            self._replicas.disk_failed(partition.log, error)
            self._fail(awaited, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        except Exception as fault:
            self._contain(awaited, fault)
            return
        if isinstance(records, ReadBatchesEffect):
            self._read(awaited, records)
            return
        if isinstance(records, ErrorCode):
            self._fail(awaited, records)
            return
        awaited.result.records = records
        if isinstance(aborted, list | ErrorCode):
            self._finish(awaited, aborted)
        else:
            awaited.aborted = aborted
            self._look_up_aborted(awaited, None)

    def _look_up_aborted(self, awaited: _Range, result: FoundAborted | None) -> None:
        """Advance the lookup to its next effect, or to its end. A generator is started by sending it None."""
        assert awaited.aborted is not None
        try:
            effect = awaited.aborted.send(result)
        except StopIteration as end:
            self._finish(awaited, end.value)
        except Exception as fault:
            self._contain(awaited, fault)
        else:
            self._ranges[effect] = awaited
            failed = partial(self._replicas.log_effect_failed, awaited.partition.log)
            self._outbox.add_effect(effect, Completion(lambda found: self._on_aborted(effect, found), failed))

    def _on_aborted(self, effect: FindAbortedEffect, found: FoundAborted) -> None:
        """Indexes of aborted transactions have been read."""
        awaited = self._ranges.pop(effect, None)
        if awaited is not None and not awaited.pending.dropped:
            self._look_up_aborted(awaited, found)

    def _finish(self, awaited: _Range, aborted: list[AbortedTransaction] | ErrorCode) -> None:
        """The records of a range are complete, with what is known of their transactions."""
        if isinstance(aborted, ErrorCode):
            self._fail(awaited, aborted)
            return
        result = awaited.result
        if aborted:
            result.aborted_transactions = _pack(aborted)
        awaited.partition.meter.bytes_out += len(result.records)
        result.fetch_position = awaited.plan.fetch_position
        awaited.pending.outstanding -= 1
        self._answer_if_done(awaited.pending)

    def _contain(self, awaited: _Range, fault: Exception) -> None:
        which: dict[str, str | int] = {
            "topic": awaited.partition.topic,
            "partition": awaited.partition.partition,
            "fetch_offset": awaited.plan.effect.offset,
        }
        self._replicas.contained.contain(READ_BYTES, fault, _name(awaited.pending) | which)
        self._fail(awaited, ErrorCode.UNKNOWN_SERVER_ERROR)

    def fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        """Reads of a partition fail at once: its leader epoch is over, or its directory is offline."""
        for effect in [effect for effect, awaited in self._ranges.items() if awaited.partition is partition]:
            awaited = self._ranges.pop(effect)
            if not awaited.pending.dropped:
                self._fail(awaited, error)

    def _fail(self, awaited: _Range, error: ErrorCode) -> None:
        self._refuse(awaited.result, awaited.partition.topic_id, awaited.partition.partition, error)
        awaited.pending.outstanding -= 1
        self._answer_if_done(awaited.pending)

    def _refuse(self, result: ReadPartitionResult, topic_id: bytes, partition: int, error: ErrorCode) -> None:
        result.error_code = error
        result.records = b""
        self._replicas.meter_of(topic_id, partition).failed_fetch_requests += 1
        if error in _LEADER_ERRORS:
            result.leader_id, result.leader_epoch = self._replicas.newest_leader(topic_id, partition)

    def _answer_if_done(self, pending: PendingRead) -> None:
        if pending.outstanding or not pending.is_planned:
            return
        stream = pending.stream
        self._outbox.read_response(stream)
        del stream.unanswered[pending.read.request_id]
        stream.requests_handled += 1
        stream.results.append(ReadResult(pending.read.request_id, pending.results))


def _name(pending: PendingRead) -> dict[str, str | int]:
    return {"stream_id": pending.stream.stream_id, "request_id": pending.read.request_id}
