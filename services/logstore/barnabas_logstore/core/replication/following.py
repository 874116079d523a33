"""The follower's side of replication: leaders' answers are written, or say where to truncate.

Truncation follows the leader's answer about where epochs diverge (KIP-595), in as many rounds as needed, and never the
high watermark (KIP-101). A log whose records are all deleted at the leader starts over at the leader's log start.
Records that do not fit end that partition's fetching until the next LeaderAndIsr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.channel.messages import ReplicaData, ReplicaFetch, ReplicaPiece
from barnabas.containment import CONTAINING
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.containment import FOLLOW
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replica.throttles import Throttles
from barnabas_logstore.core.replication.fetcher import Fetcher, FetchLimits, FollowedPartition, Stage
from barnabas_logstore.core.replication.follower_cuts import FollowerCuts
from barnabas_logstore.core.storage.log.features.replicated_batches import (
    begins_before,
    begins_behind_wide_gap,
)
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.replication_outbox import ReplicationOutbox

OnPartition = Callable[[Partition], None]


class Following:
    """Everything that this logstore follows. `now_ms` and `wall_ms` are those of the last step."""

    def __init__(
        self,
        replicas: Replicas,
        says: ReplicationOutbox,
        limits: FetchLimits,
        throttles: Throttles,
        cuts: FollowerCuts,
        *,
        watermark_moved: OnPartition,
        log_start_moved: OnPartition,
        has_writes: Callable[[PartitionLog], None],
    ) -> None:
        """`has_writes`: a log has been given some."""
        self._replicas = replicas
        self._says = says
        self._limits = limits
        self._throttles = throttles
        self._cuts = cuts
        self._watermark_moved = watermark_moved
        self._log_start_moved = log_start_moved
        self._has_writes = has_writes
        self._fetchers: dict[int, Fetcher] = {}
        self._leader_of: dict[PartitionKey, int] = {}
        self._is_stopped = False
        self.now_ms = self.wall_ms = 0

    # --- what the controller says ---

    def follow(self, partition: Partition) -> None:
        """Called after every LeaderAndIsr with a new state: fetch from the partition's leader, if that is another
        logstore.
        """
        leader_id = partition.leader_id
        before = self._leader_of.get(partition.key)
        follows = partition.online and not partition.is_stopped and leader_id >= 0 and not partition.leading
        if before is not None and (not follows or before != leader_id):
            self.forget(partition)
        if follows:
            fetcher = self._fetchers.setdefault(leader_id, Fetcher(self._limits, self._throttles))
            self._leader_of[partition.key] = leader_id
            if not fetcher.is_fetching(partition):
                self._cuts.give_up(partition)
                fetcher.follow(partition)

    def forget(self, partition: Partition) -> None:
        """It is not followed any more, or not from that leader."""
        leader_id = self._leader_of.pop(partition.key, None)
        if leader_id is not None:
            self._cuts.give_up(partition)
            self._fetchers[leader_id].forget(partition.key)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing waits for a rate to be kept again."""
        return not any(fetcher.at(Stage.THROTTLED) for fetcher in self._fetchers.values())

    def stop(self) -> None:
        """Fetch nothing any more: the logstore is about to stop, and its logs have to become idle."""
        self._is_stopped = True
        for partition in self._replicas.by_key.values():
            self._cuts.give_up(partition)

    @property
    def leaders(self) -> list[int]:
        """Return the leaders to which a stream is wanted."""
        return [leader_id for leader_id, fetcher in self._fetchers.items() if not fetcher.is_idle]

    # --- streams ---

    def connected(self, leader_id: int) -> None:
        if leader_id in self._fetchers:
            self._fetchers[leader_id].connected()

    def disconnected(self, leader_id: int) -> None:
        if leader_id in self._fetchers:
            self._fetchers[leader_id].disconnected()

    @property
    def has_work(self) -> bool:
        """Whether a fetch can be sent."""
        if not self._fetchers or self._is_stopped:
            return False
        return any(fetcher.may_fetch for fetcher in self._fetchers.values())

    def take_fetches(self) -> Iterable[tuple[int, ReplicaFetch]]:
        for leader_id, fetcher in () if self._is_stopped else self._fetchers.items():
            fetch = fetcher.take_fetch(self.now_ms)
            if fetch is not None:
                yield leader_id, fetch

    # --- answers ---

    def on_piece(self, leader_id: int, piece: ReplicaPiece) -> None:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None or not fetcher.is_answer(piece) or self._is_stopped:
            return
        for data in piece.partitions:
            followed = fetcher.asked_of(data.slot, piece.request_id)
            if followed is not None:
                try:
                    self._take(fetcher, followed, data)
                except Exception as error:
                    with CONTAINING:
                        self._replicas.contained.log_in_doubt(FOLLOW, error, followed.partition.log)
        if piece.last:
            fetcher.answered(piece)

    def _take(self, fetcher: Fetcher, followed: FollowedPartition, data: ReplicaData) -> None:
        log = followed.partition.log
        end_offset = log.log_end_offset
        followed.word = (data.high_watermark, data.log_start_offset)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > end_offset:
            # Everything that we have has been deleted at the leader.
            self._begin_cut(fetcher, followed, data.log_start_offset, truncate_fully=True)
            if followed.stage is Stage.BACKING_OFF:
                self._hear(fetcher, followed)
        elif data.error_code:
            fetcher.back_off(followed, self.now_ms)
        elif data.diverging_end_offset >= 0:
            own_epoch, own_end = log.leader_epochs.end_offset_of(data.diverging_epoch, end_offset)
            offset = min(data.diverging_end_offset, own_end if own_epoch >= 0 else end_offset)
            if offset < end_offset:
                self._begin_cut(fetcher, followed, offset, truncate_fully=False)
            else:
                self._fail(
                    fetcher, followed, f"the leader's log diverges from ours at {offset}, our end is {end_offset}"
                )
        elif data.records:
            fetcher.brought(followed, len(data.records), self.now_ms)
            followed.partition.meter.replication_bytes_in += len(data.records)
            self._append(fetcher, followed, memoryview(data.records))
        else:
            self._hear(fetcher, followed)

    def _append(self, fetcher: Fetcher, followed: FollowedPartition, records: memoryview) -> None:
        partition = followed.partition
        log = partition.log
        base_offset = begins_before(records, log.next_offset)
        is_all_deleted = log.next_offset == log.log_start_offset or followed.word[1] > (base_offset or 0)
        if base_offset is None or not is_all_deleted:
            base_offset = begins_behind_wide_gap(log.state, records)
        if base_offset is not None:
            # The leader's log begins inside a batch, or did when ours began there: that batch is taken from its
            # beginning. Everything else we have is deleted at the leader. Or we have nothing, and compaction has
            # removed so much at the leader that a segment of ours can't begin at offset 0.
            followed.records = records
            self._begin_cut(fetcher, followed, base_offset, truncate_fully=True)
            return
        problem = log.append_replicated(records, partition.leader_epoch, self.wall_ms)
        if isinstance(problem, ErrorCode):
            fetcher.back_off(followed, self.now_ms)
            if partition.online:
                # The disk is full, and there is more space if the log begins further on.
                self._hear(fetcher, followed)
        elif problem is not None:
            self._fail(fetcher, followed, problem)
        else:
            fetcher.move(followed, Stage.WRITING)
            self._has_writes(log)

    def _fail(self, fetcher: Fetcher, followed: FollowedPartition, problem: str) -> None:
        fetcher.move(followed, Stage.FAILED)
        self._says.report(followed.partition, problem)

    def _hear(self, fetcher: Fetcher, followed: FollowedPartition) -> None:
        """Apply the leader's watermark, as far as our log goes, and its log start."""
        partition = followed.partition
        (high_watermark, log_start_offset), followed.word = followed.word, (-1, -1)
        followed.is_in_sync = 0 <= high_watermark <= partition.log.log_end_offset
        high_watermark = min(high_watermark, partition.log.log_end_offset)
        if high_watermark > partition.high_watermark:
            partition.high_watermark = high_watermark
            self._watermark_moved(partition)
        log_start_offset = min(log_start_offset, partition.high_watermark)
        if log_start_offset > partition.log.log_start_offset:
            partition.log.move_log_start(log_start_offset)
            self._log_start_moved(partition)
            # DeleteRecords waits at the leader until it gets our log start, also where our disk is full.
            fetcher.move(followed, Stage.TO_TELL)

    def log_start_moved(self, partition: Partition) -> None:
        """The log begins further on, by its own retention too: DeleteRecords at the leader waits until it gets that."""
        found = self._find(partition, Stage.REPORTED)
        if found is not None:
            fetcher, followed = found
            fetcher.move(followed, Stage.TO_TELL)

    # --- writes ---

    def on_written(self, partition: Partition) -> None:
        """A write of the partition's log is over, successfully or because space is lacking."""
        found = self._find(partition, Stage.WRITING)
        if found is None or not partition.log.writes.is_idle:
            return
        fetcher, followed = found
        if partition.log.no_room is not None:
            fetcher.back_off(followed, self.now_ms)
        else:
            fetcher.move(followed, Stage.TO_TELL)
        self._hear(fetcher, followed)

    def _find(self, partition: Partition, stage: Stage) -> tuple[Fetcher, FollowedPartition] | None:
        leader_id = self._leader_of.get(partition.key)
        if leader_id is None:
            return None
        fetcher = self._fetchers[leader_id]
        followed = fetcher.of(partition.key)
        return (fetcher, followed) if followed is not None and followed.stage is stage else None

    # --- cuts ---

    def _begin_cut(self, fetcher: Fetcher, followed: FollowedPartition, offset: int, *, truncate_fully: bool) -> None:
        if self._cuts.begin(followed.partition, offset, truncate_fully=truncate_fully):
            fetcher.move(followed, Stage.CUTTING)
        else:
            followed.records = None
            fetcher.back_off(followed, self.now_ms)

    def continue_cuts(self) -> None:
        """A checkpoint is in place: truncate the logs that waited for it."""
        for fetcher in self._fetchers.values():
            for followed in fetcher.at(Stage.CUTTING):
                try:
                    self._cuts.carry_out_if_due(followed.partition.log, self._cut_ended)
                except Exception as error:
                    with CONTAINING:
                        self._replicas.contained.log_in_doubt(FOLLOW, error, followed.partition.log)

    def _cut_ended(self, partition: Partition, is_cut: bool) -> None:
        """The log is truncated, or there was no space for that."""
        self._log_start_moved(partition)
        found = self._find(partition, Stage.CUTTING)
        if found is None:
            return
        fetcher, followed = found
        records, followed.records = followed.records, None
        if not is_cut:
            fetcher.back_off(followed, self.now_ms)
        elif records is not None:
            self._append(fetcher, followed, records)
        else:
            fetcher.move(followed, Stage.TO_TELL)
            self._hear(fetcher, followed)
