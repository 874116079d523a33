"""DeleteRecords: the log start moves, and the segments that are wholly below it go.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE (past the high watermark),
POLICY_VIOLATION (cleanup.policy lacks delete), KAFKA_STORAGE_ERROR. The low watermark answered is the leader's own log
start: no other replica exists that would have to follow. What a crash may undo: see `storage.log_start`.
"""

from __future__ import annotations

from barnabas.cluster.administration import (
    DeletedRecords,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from barnabas.cluster.messages import NO_EPOCH
from barnabas.wire.errors import ErrorCode
from services.logstore.core.administration.work import Pause, Work
from services.logstore.core.replicas import Replicas
from services.logstore.core.retention import Retention


class DeleteRecords:
    def __init__(self, replicas: Replicas, retention: Retention) -> None:
        self._replicas = replicas
        self._retention = retention

    def answer(self, request: DeleteRecordsRequest, now_ms: int) -> Work:
        deleted: list[DeletedRecords] = []
        for asked in request.partitions:
            deleted.append(self._delete(asked))
            yield Pause.MORE
        return DeleteRecordsResponse(deleted)

    def _delete(self, asked: DeleteRecordsPartition) -> DeletedRecords:
        partition = self._replicas.by_key.get((asked.topic_id, asked.partition))
        if partition is None:
            return DeletedRecords(self._replicas.error_of_absent(asked.topic_id, asked.partition))
        error = partition.check_leader_epoch(NO_EPOCH)
        if error:
            return DeletedRecords(error)
        low_watermark = partition.log.delete_records(asked.offset, partition.high_watermark)
        if isinstance(low_watermark, ErrorCode):
            return DeletedRecords(low_watermark)
        self._retention.log_start_moved(partition)
        self._retention.check_soon(partition)
        return DeletedRecords(ErrorCode.NONE, low_watermark)
