"""Moves of partitions between log directories (KIP-113): one at a time, in bounded steps, concurrently with everything
else.

`storage.log_copy` describes how a log is copied and replaced, and what a crash leaves of that. A move ends early if the
partition is removed, its disk fails, or there is no space for it: the copy is dropped, the log stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from barnabas.containment import CONTAINING
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.log_flusher import LogFlusher
from barnabas_logstore.core.replica.containment import MOVE
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replica.throttles import ReplicationQuota
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.directories.log_copy import MOVED_FROM, PIECE_BYTES, LogCopy
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effects import CopyEffect, MovedEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Completion, Outbox, ignore_result


class _Phase(Enum):
    COPYING = "pieces are copied while the log stays in use"
    HELD = "the log finishes what is in progress, and is flushed"
    FINISHING = "the last bytes and the final name"


@dataclass(slots=True, eq=False)
class _Move:
    copy: LogCopy
    target: LogDirectory
    phase: _Phase = _Phase.COPYING
    in_flight: CopyEffect | None = None
    is_given_up: bool = False


class AlterReplicaLogDirs:
    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        checkpoints: Checkpoints,
        has_writes: Callable[[PartitionLog], None],
        flusher: LogFlusher,
        outbox: Outbox,
        quota: ReplicationQuota,
    ) -> None:
        """`has_writes`: a log may have something to write. `quota`: that of replica.alter.log.dirs.io.max."""
        self._replicas = replicas
        self._directories = directories
        self._checkpoints = checkpoints
        self._has_writes = has_writes
        self._flusher = flusher
        self._outbox = outbox
        self._quota = quota
        self._now_ms = 0
        self._is_stopping = False
        # Requested and not begun, in order. By log: of a topic that is deleted and created again nothing is moved.
        self._wanted: dict[PartitionLog, LogDirectory] = {}
        self._move: _Move | None = None

    @property
    def is_idle(self) -> bool:
        return self._move is None

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is moved, nor asked to be."""
        return self._move is None and not self._wanted

    def resume(self) -> None:
        """Start again the moves that were in progress when this logstore ended."""
        for directory in self._directories.online:
            for name in directory.futures:
                if name in self._replicas.by_name:
                    self.request(name, directory.path)

    def request(self, name: TopicPartition, path: str) -> ErrorCode:
        """Move a partition to the log directory at `path`; NONE if the move is accepted, or none is needed.

        LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR (either directory is offline). UNKNOWN_TOPIC_OR_PARTITION and
        REPLICA_NOT_AVAILABLE: it is not here, and will be created there if it comes.
        """
        target = self._directories.by_path.get(path)
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if target.error is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._replicas.by_name.get(name)
        if partition is None:
            self._directories.preferred[name] = target
            is_known = name[0] in self._replicas.image.topics_by_name
            return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not partition.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        move = self._move
        if move is not None and move.copy.log is partition.log:
            if move.target is target:
                return ErrorCode.NONE
            self._give_up(move)
        self._wanted.pop(partition.log, None)
        if self._directories.directory_of(partition.log) is not target:
            self._wanted[partition.log] = target
        return ErrorCode.NONE

    def future_in(self, directory: LogDirectory) -> LogCopy | None:
        """Return the copies on their way into a log directory."""
        move = self._move
        return move.copy if move is not None and move.target is directory else None

    def stop(self) -> None:
        """Begin nothing more; cancel what can be cancelled."""
        self._is_stopping = True
        self._wanted.clear()
        if self._move is not None:
            self._give_up(self._move)

    # --- steps -------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if self._move is not None or self._is_stopping:
            return
        for log, target in list(self._wanted.items()):
            if log not in self._replicas.by_log:
                del self._wanted[log]
                continue
            is_free = not log.is_truncating and not self._checkpoints.may_name(target, log.topic_partition)
            if is_free and self._begin(log, self._wanted.pop(log)):
                return

    def _begin(self, log: PartitionLog, target: LogDirectory) -> bool:
        """Return whether it has begun."""
        if not self._replicas.by_log[log].online or target.error is not None:
            return False
        try:
            copy = LogCopy(log, target.path, target.future_of(log.topic_partition))
            self._move = _Move(copy, target)
            self._send(self._move, copy.begin())
        except Exception as error:
            self._move = None  # it has no directory yet that could be deleted
            with CONTAINING:
                self._replicas.contained.log_in_doubt(MOVE, error, log)
            return False
        return True

    def _send(self, move: _Move, effect: CopyEffect) -> None:
        self._quota.record(sum([length for _, _, _, length in effect.pieces]), self._now_ms)
        completion = Completion(partial(self._on_copied, move, effect), partial(self._on_failed, move, effect))
        self._outbox.add_effect(effect, completion)
        move.in_flight = effect

    def continue_moves(self) -> None:
        """Called once per turn: take the next step, if it can be taken now. What is raised takes the log offline, which
        may be held, and that ends its move in the next turn.
        """
        move = self._move
        if move is None or move.in_flight is not None:
            return
        try:
            self._continue(move)
        except Exception as error:
            with CONTAINING:
                self._replicas.contained.log_in_doubt(MOVE, error, move.copy.log)

    def _continue(self, move: _Move) -> None:
        log = move.copy.log
        if move.is_given_up or log.error is not None or log not in self._replicas.by_log:
            self._drop(move)
            return
        if move.phase is _Phase.HELD and log.no_room is not None:
            # It can't be flushed now. It is unknown for how long, and its appends wait.
            move.phase = _Phase.COPYING
            self._release(log)
        if move.phase is _Phase.COPYING:
            if log.is_swapping:
                return  # the files of the cleaned segment don't have their names yet
            if self._quota.is_exceeded(self._now_ms):
                return
            step = move.copy.next_step(max(1, min(PIECE_BYTES, self._quota.bytes_per_second)))
            if step is not None:
                self._send(move, step)
                return
            if log.is_being_cleaned or not log.retirement.is_idle or log.no_room is not None:
                return
            log.hold()
            move.phase = _Phase.HELD
        if log.is_idle:
            flush = log.begin_held_flush()
            if flush is not None:
                self._flusher.send(log, flush)
                return
            move.phase = _Phase.FINISHING
            self._send(move, move.copy.last_step())

    def _on_copied(self, move: _Move, effect: CopyEffect, result: object) -> None:
        if move is not self._move or move.in_flight is not effect:
            return  # what raised as it was sent has ended the move
        move.in_flight = None
        if move.phase is _Phase.FINISHING:
            self._finish(move, effect.final)

    def _finish(self, move: _Move, path: str) -> None:
        """The copy has its final name, durably: from here on it is the log."""
        log, target = move.copy.log, move.target
        self._move = None
        if log not in self._replicas.by_log:
            target.delete_later(path, self._now_ms)
            self._release(log)
            return
        if log.error is not None or target.error is not None:
            # One of the two disks has failed. A start that finds the log on both knows which one is valid
            # (`finish_moves`).
            self._release(log)
            return
        source = self._directories.directory_of(log)
        error = source.delete(log.topic_partition, self._now_ms)
        if error is not None:
            # A start finds the log in both directories, and knows which of them is valid.
            source.logs.pop(log.topic_partition, None)
            self._replicas.directory_failed(source.path, error)
        self._checkpoints.logs_taken_away([log])
        target.take_over(log)
        self._checkpoints.log_moved(log)
        failed = partial(self._replicas.directory_failed, source.path)
        self._outbox.add_effect(MovedEffect(source.path, f"{path}/{MOVED_FROM}"), Completion(ignore_result, failed))
        if source.no_room is not None and target.no_room is None:
            log.disk_full.accept_appends()
        if source.no_room is not None or target.no_room is not None:
            # The registration is unchanged, and makes the controller ask where the partition is.
            self._outbox.report_full_disk(target.path, target.no_room)
        self._release(log)

    def _release(self, log: PartitionLog) -> None:
        """Write what has accumulated."""
        if log.is_held:
            log.release()
            self._has_writes(log)

    def interrupt(self, log: PartitionLog) -> bool:
        """The log is about to be truncated, which makes its copy useless: start over later. Return False if that takes
        a moment.
        """
        move = self._move
        if move is None or move.copy.log is not log:
            return True
        if move.phase is not _Phase.FINISHING and not move.is_given_up:
            move.is_given_up = True
            self._wanted[log] = move.target
        return False

    # --- the end before the end --------------------------------------------------------------------------------------

    def _give_up(self, move: _Move) -> None:
        """Give up, unless the copy is about to become the log: then it is too late."""
        if move.phase is not _Phase.FINISHING:
            move.is_given_up = True

    def _drop(self, move: _Move) -> None:
        self._move = None
        move.target.delete_later(move.copy.future, self._now_ms)
        self._release(move.copy.log)

    def _on_failed(self, move: _Move, effect: CopyEffect, error: DiskError) -> None:
        """A step has failed: at the target, where nothing is lost, or in the log's own directory."""
        if move is not self._move or move.in_flight is not effect:
            return
        move.in_flight = None
        if not error.is_lack_of_room:
            is_target = f"{error.path}/".startswith(f"{effect.log_directory}/")
            path = effect.log_directory if is_target else move.copy.log.directory.rpartition("/")[0]
            self._replicas.directory_failed(path, error)
        self._drop(move)
