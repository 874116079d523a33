"""Describe the log directories of this logstore, their replicas and their free space (KIP-113, KIP-827).

Every directory is described, including those without any of the requested partitions. An offline one is
KAFKA_STORAGE_ERROR, without further details.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from barnabas.cluster.administration import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirDescription,
    LogDirReplica,
)
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.administration.work import Pause, Work
from barnabas_logstore.core.maintenance.alter_replica_log_dirs import AlterReplicaLogDirs
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.replica.partition import PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_results import VolumeSpace
from barnabas_logstore.core.storage.effects import SpaceEffect
from barnabas_logstore.core.streams.outbox import Completion, Outbox

REPLICAS_PER_PIECE: Final = 64


class LogDirs:
    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        moves: AlterReplicaLogDirs,
        outbox: Outbox,
        poke: Callable[[], None],
    ) -> None:
        """`poke` resumes calls that wait."""
        self._replicas = replicas
        self._directories = directories
        self._moves = moves
        self._outbox = outbox
        self._poke = poke

    def answer(self, request: DescribeLogDirsRequest, now_ms: int) -> Work:
        asked = None if request.all else {(each.topic_id, each.partition) for each in request.partitions}
        spaces: dict[str, VolumeSpace | None] = {}
        online = [directory.path for directory in self._directories.online]
        for path in online:
            completion = Completion(partial(self._on_measured, spaces, path), partial(self._on_failed, spaces, path))
            self._outbox.add_effect(SpaceEffect(path), completion)
        while len(spaces) < len(online):
            yield Pause.WAITING
        described = []
        for path, directory in self._directories.by_path.items():
            space = spaces.get(path)
            if directory.error is not None or space is None:
                described.append(LogDirDescription(ErrorCode.KAFKA_STORAGE_ERROR, path))
            else:
                replicas = yield from self._describe(directory, asked)
                described.append(
                    LogDirDescription(ErrorCode.NONE, path, space.total_bytes, space.usable_bytes, replicas)
                )
        return DescribeLogDirsResponse(described)

    def _on_measured(self, spaces: dict[str, VolumeSpace | None], path: str, space: VolumeSpace) -> None:
        spaces[path] = space
        self._poke()

    def _on_failed(self, spaces: dict[str, VolumeSpace | None], path: str, error: DiskError) -> None:
        spaces[path] = None
        self._replicas.directory_failed(path, error)
        self._poke()

    def _describe(
        self, directory: LogDirectory, asked: set[PartitionKey] | None
    ) -> Generator[Pause, int, list[LogDirReplica]]:
        replicas = []
        for looked_at, (name, log) in enumerate(list(directory.logs.items()), 1):
            if looked_at % REPLICAS_PER_PIECE == 0:
                yield Pause.MORE
            partition = self._replicas.by_name.get(name)
            if partition is not None and (asked is None or partition.key in asked):
                offset_lag = max(partition.high_watermark - log.log_end_offset, 0)
                replicas.append(LogDirReplica(*name, log.byte_count, offset_lag, is_future=False))
        future = self._moves.future_in(directory)
        if future is not None:
            partition = self._replicas.by_log.get(future.log)
            if partition is not None and (asked is None or partition.key in asked):
                name = future.log.topic_partition
                replicas.append(LogDirReplica(*name, future.byte_count, future.offset_lag, is_future=True))
        return replicas
