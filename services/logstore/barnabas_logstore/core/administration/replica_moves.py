"""AlterReplicaLogDirs (KIP-113): answered when a move is taken up, not when it is done.

Errors: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR (either directory is offline), UNKNOWN_TOPIC_OR_PARTITION,
REPLICA_NOT_AVAILABLE (known, and not here; with both the directory is remembered for when it comes).
"""

from __future__ import annotations

from barnabas.cluster.administration import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from barnabas_logstore.core.administration.work import Pause, Work
from barnabas_logstore.core.maintenance.alter_replica_log_dirs import AlterReplicaLogDirs


class ReplicaMoves:
    def __init__(self, moves: AlterReplicaLogDirs) -> None:
        self._moves = moves

    def answer(self, request: AlterReplicaLogDirsRequest, now_ms: int) -> Work:
        error_codes: list[int] = []
        for move in request.moves:
            error_codes.append(self._moves.request((move.topic, move.partition), move.path))
            yield Pause.MORE
        return AlterReplicaLogDirsResponse(error_codes)
