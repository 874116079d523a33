"""Where a leader epoch ends (KIP-101, KIP-320): how a consumer finds out that what it has read was truncated. And how
far it can be read at present, for those who tell how far groups lag.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.administration import (
    EndOffsetAnswer,
    EndOffsetQuery,
    EndOffsetsRequest,
    EndOffsetsResponse,
    LatestOffset,
)
from barnabas_logstore.core.administration.work import Pause, Work
from barnabas_logstore.core.replica.replicas import Replicas

QUERIES_PER_PIECE: Final = 16


class EndOffsets:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def answer(self, request: EndOffsetsRequest, now_ms: int) -> Work:
        answers: list[EndOffsetAnswer] = []
        for query in request.partitions:
            answers.append(self._look_up(query))
            if len(answers) % QUERIES_PER_PIECE == 0:
                yield Pause.MORE
        return EndOffsetsResponse(answers)

    def _look_up(self, query: EndOffsetQuery) -> EndOffsetAnswer:
        partition = self._replicas.by_key.get((query.topic_id, query.partition))
        if partition is None:
            return EndOffsetAnswer(self._replicas.error_of_absent(query.topic_id, query.partition))
        error = partition.check_leader_epoch(query.current_leader_epoch)
        if error:
            return EndOffsetAnswer(error)
        log = partition.log
        latest = LatestOffset(partition.high_watermark) if partition.knows_latest_offset() else None
        return EndOffsetAnswer(error, *log.leader_epochs.end_offset_of(query.leader_epoch, log.log_end_offset), latest)
