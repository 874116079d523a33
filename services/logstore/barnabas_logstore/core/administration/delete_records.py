"""DeleteRecords: move the log start on every replica, and delete the segments that are completely below it.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE (past the high watermark),
POLICY_VIOLATION (cleanup.policy lacks delete), KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT (the leader's log start has
moved, and a live follower has not confirmed in time). The low watermark in the answer is the earliest log start of the
live replicas. What a crash may undo: see `storage.log_start`.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.administration import (
    DeletedRecords,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from barnabas.cluster.messages import NO_EPOCH
from barnabas.containment import CONTAINING
from barnabas.wire.errors import ErrorCode, Refused
from barnabas_logstore.core.administration.work import Pause, Work
from barnabas_logstore.core.maintenance.retention import Retention
from barnabas_logstore.core.replica.containment import RETENTION
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas


@dataclass(slots=True)
class _Deletion:
    """A request that waits for followers."""

    partition: Partition
    leader_epoch: int
    log_start_offset: int


class DeleteRecords:
    def __init__(self, replicas: Replicas, retention: Retention) -> None:
        self._replicas = replicas
        self._retention = retention

    def answer(self, request: DeleteRecordsRequest, now_ms: int) -> Work:
        deadline_ms = now_ms + max(0, request.timeout_ms)
        begun: list[DeletedRecords | _Deletion] = []
        for asked in request.partitions:
            begun.append(self._delete(asked))
            yield Pause.MORE
        deleted: list[DeletedRecords] = []
        for each in begun:
            while isinstance(each, _Deletion):
                outcome = self._outcome(each, is_over=now_ms >= deadline_ms)
                if outcome is None:
                    now_ms = yield Pause.WAITING
                else:
                    each = outcome
            deleted.append(each)
        return DeleteRecordsResponse(deleted)

    def _delete(self, asked: DeleteRecordsPartition) -> DeletedRecords | _Deletion:
        partition = self._replicas.by_key.get((asked.topic_id, asked.partition))
        if partition is None:
            return DeletedRecords(self._replicas.error_of_absent(asked.topic_id, asked.partition))
        error = partition.check_leader_epoch(NO_EPOCH)
        if error:
            return DeletedRecords(error)
        try:
            log_start_offset = partition.log.delete_records(asked.offset, partition.high_watermark)
        except Exception as fault:
            with CONTAINING:
                self._replicas.contained.log_in_doubt(RETENTION, fault, partition.log)
            return DeletedRecords(ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(log_start_offset, Refused):
            return DeletedRecords(log_start_offset.error_code)
        self._retention.log_start_moved(partition)
        self._retention.check_soon(partition)
        return _Deletion(partition, partition.leader_epoch, log_start_offset)

    def _outcome(self, deletion: _Deletion, *, is_over: bool) -> DeletedRecords | None:
        partition = deletion.partition
        if self._replicas.by_key.get(partition.key) is not partition:
            return DeletedRecords(self._replicas.error_of_absent(*partition.key))
        error = partition.check_leader_epoch(deletion.leader_epoch)
        if error:
            is_offline = error is ErrorCode.KAFKA_STORAGE_ERROR
            return DeletedRecords(error if is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        low_watermark = partition.low_watermark(self._replicas.image.brokers)
        if low_watermark >= deletion.log_start_offset:
            return DeletedRecords(ErrorCode.NONE, low_watermark)
        return DeletedRecords(ErrorCode.REQUEST_TIMED_OUT, low_watermark) if is_over else None
