"""The follower's side of replication: one fetcher for every logstore that leads partitions of ours.

A fetcher asks, writes what it got, and only then asks again: a fetch offset is always the log end offset, so that it
is a vote for the leader's high watermark. Truncation follows the leader's word on where epochs part (KIP-595), as many
rounds as that takes, and never the high watermark (KIP-101). A log that does not begin where the leader's records
would have to go on is cut or begun anew; anything else that does not fit ends that partition's fetching until the next
LeaderAndIsr (correctness: fetch offset ≠ log end at append is fatal).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.channel.messages import ReplicaData, ReplicaFetch, ReplicaPiece, ReplicaPosition
from barnabas.wire.errors import ErrorCode
from services.logstore.core.outbox import Outbox
from services.logstore.core.partition import Partition, PartitionKey
from services.logstore.core.replicas import Replicas
from services.logstore.core.replication.outbox import ReplicationOutbox
from services.logstore.core.storage.effects import TruncateEffect, WriteEffect
from services.logstore.core.storage.log import PartitionLog


@dataclass(slots=True, frozen=True)
class FetchLimits:
    """`replica.fetch.response.max.bytes`, `replica.fetch.max.bytes`, `replica.fetch.wait.max.ms`,
    `replica.fetch.backoff.ms`.
    """

    response_bytes_max: int = 10 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    wait_ms_max: int = 500
    backoff_ms: int = 1000


@dataclass(slots=True, eq=False)
class FollowingPartition:
    """`told` is the position that the leader knows; `retry_ms` when to ask again after an error."""

    slot: int
    partition: Partition
    told: tuple[int, int, int, int] | None = None
    retry_ms: int = -1
    is_failed: bool = False


class Fetcher:
    """What is fetched from one leader. `is_connected` begins with its welcome and ends with the stream."""

    def __init__(self, leader_id: int, limits: FetchLimits) -> None:
        self.leader_id = leader_id
        self.is_connected = False
        self._limits = limits
        self._by_key: dict[PartitionKey, FollowingPartition] = {}
        self._by_slot: dict[int, FollowingPartition] = {}
        self._forgotten: list[int] = []
        # Whose position has moved, or is to be told again.
        self._moved: dict[FollowingPartition, None] = {}
        self._waiting: dict[FollowingPartition, None] = {}
        self._next_slot = 0
        self._last_request_id = 0
        self._is_outstanding = False
        # Logs that are writing or cutting what the last answer brought.
        self._busy: dict[PartitionLog, FollowingPartition] = {}

    @property
    def is_idle(self) -> bool:
        """Nobody is followed: the stream may go."""
        return not self._by_key

    # --- who is followed ---

    def follow(self, partition: Partition) -> None:
        """Fetch this partition from now on; its epoch or its log may be others than before."""
        following = self._by_key.get(partition.key)
        if following is None:
            self._next_slot += 1
            following = FollowingPartition(self._next_slot, partition)
            self._by_key[partition.key] = self._by_slot[following.slot] = following
        following.is_failed = False
        self._tell_again(following)

    def forget(self, key: PartitionKey) -> None:
        following = self._by_key.pop(key, None)
        if following is None:
            return
        del self._by_slot[following.slot]
        self._moved.pop(following, None)
        self._waiting.pop(following, None)
        if following.told is not None:
            self._forgotten.append(following.slot)

    def _tell_again(self, following: FollowingPartition) -> None:
        following.told = None
        following.retry_ms = -1
        self._waiting.pop(following, None)
        self._moved[following] = None

    # --- the stream ---

    def connected(self) -> None:
        """The leader has welcomed us: a new session, in which nothing has been told."""
        self.is_connected = True
        self._is_outstanding = False
        self._forgotten.clear()
        for following in self._by_key.values():
            if not following.is_failed:
                self._tell_again(following)

    def disconnected(self) -> None:
        self.is_connected = self._is_outstanding = False

    def take_fetch(self, now_ms: int) -> ReplicaFetch | None:
        """The next fetch, once the answer to the last one is written."""
        if not self.is_connected or self._is_outstanding or self._busy or self.is_idle:
            return None
        for following in [each for each in self._waiting if each.retry_ms <= now_ms]:
            self._tell_again(following)
        self._last_request_id += 1
        self._is_outstanding = True
        fetch = ReplicaFetch(
            self._last_request_id,
            self._limits.response_bytes_max,
            self._limits.partition_bytes_max,
            self._wait_ms(now_ms),
            [self._position(following) for following in self._moved],
            self._forgotten,
        )
        self._moved, self._forgotten = {}, []
        return fetch

    def _wait_ms(self, now_ms: int) -> int:
        """No longer than until somebody's backoff is over."""
        retry_ms = min((following.retry_ms for following in self._waiting), default=now_ms + self._limits.wait_ms_max)
        return max(0, min(self._limits.wait_ms_max, retry_ms - now_ms))

    @staticmethod
    def _position(following: FollowingPartition) -> ReplicaPosition:
        partition = following.partition
        log = partition.log
        last_fetched_epoch = log.leader_epochs.epoch_of(log.log_end_offset - 1)
        told = (partition.leader_epoch, log.log_end_offset, last_fetched_epoch, log.log_start_offset)
        following.told = told
        return ReplicaPosition(following.slot, partition.topic_id, partition.partition, *told)

    # --- answers ---

    def following_of(self, slot: int) -> FollowingPartition | None:
        """None when it was forgotten while the answer was on its way."""
        return self._by_slot.get(slot)

    def is_answer(self, piece: ReplicaPiece) -> bool:
        return self._is_outstanding and piece.request_id == self._last_request_id

    def answered(self) -> None:
        """The last piece has come."""
        self._is_outstanding = False

    def back_off(self, following: FollowingPartition, now_ms: int) -> None:
        following.retry_ms = now_ms + self._limits.backoff_ms
        self._moved.pop(following, None)
        self._waiting[following] = None

    def failed(self, following: FollowingPartition) -> None:
        """Nothing more of this partition until the controller says something new of it."""
        following.is_failed = True
        self._moved.pop(following, None)
        self._waiting.pop(following, None)

    def moved(self, following: FollowingPartition) -> None:
        """Its log is another than the leader was told: ask on from there."""
        if following.partition.key in self._by_key and not following.is_failed:
            self._moved[following] = None

    def busy(self, following: FollowingPartition) -> None:
        self._busy[following.partition.log] = following

    def done(self, log: PartitionLog) -> FollowingPartition | None:
        return self._busy.pop(log, None)


class Following:
    """Everything that this logstore follows."""

    def __init__(self, replicas: Replicas, outbox: Outbox, says: ReplicationOutbox, limits: FetchLimits) -> None:
        self._replicas = replicas
        self._outbox = outbox
        self._says = says
        self._limits = limits
        self._fetchers: dict[int, Fetcher] = {}
        self._leader_of: dict[PartitionKey, int] = {}
        # What the leader said along with records or a cut that is under way: (high watermark, log start).
        self._leaders_word: dict[PartitionLog, tuple[int, int]] = {}

    # --- what the controller says ---

    def follow(self, partition: Partition) -> None:
        """After every LeaderAndIsr: fetch from its leader, if that is another logstore."""
        leader_id = partition.leader_id
        before = self._leader_of.get(partition.key)
        follows = partition.online and not partition.is_stopped and leader_id >= 0 and not partition.leading
        if before is not None and (not follows or before != leader_id):
            self.forget(partition.key)
        if follows:
            self._leader_of[partition.key] = leader_id
            fetcher = self._fetchers.get(leader_id)
            if fetcher is None:
                fetcher = self._fetchers[leader_id] = Fetcher(leader_id, self._limits)
            fetcher.follow(partition)

    def forget(self, key: PartitionKey) -> None:
        leader_id = self._leader_of.pop(key, None)
        if leader_id is not None:
            self._fetchers[leader_id].forget(key)

    @property
    def leaders(self) -> list[int]:
        """Whom a stream is wanted to."""
        return [leader_id for leader_id, fetcher in self._fetchers.items() if not fetcher.is_idle]

    # --- streams ---

    def connected(self, leader_id: int) -> None:
        if leader_id in self._fetchers:
            self._fetchers[leader_id].connected()

    def disconnected(self, leader_id: int) -> None:
        if leader_id in self._fetchers:
            self._fetchers[leader_id].disconnected()

    def take_fetches(self, now_ms: int) -> Iterable[tuple[int, ReplicaFetch]]:
        for leader_id, fetcher in self._fetchers.items():
            fetch = fetcher.take_fetch(now_ms)
            if fetch is not None:
                yield leader_id, fetch

    # --- answers ---

    def on_piece(self, leader_id: int, piece: ReplicaPiece, now_ms: int) -> None:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None or not fetcher.is_answer(piece):
            return
        for data in piece.partitions:
            following = fetcher.following_of(data.slot)
            if following is not None and following.told is not None:
                self._take(fetcher, following, data, now_ms)
        if piece.last:
            fetcher.answered()

    def _take(self, fetcher: Fetcher, following: FollowingPartition, data: ReplicaData, now_ms: int) -> None:
        partition = following.partition
        told = following.told
        assert told is not None
        if told[0] != partition.leader_epoch or told[1] != partition.log.log_end_offset or not partition.online:
            return  # Said of a state that is over; the new one is told already.
        error = data.error_code
        if error == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > partition.log.log_end_offset:
            # Everything that we have has been deleted at the leader: begin where its log begins.
            self._cut(fetcher, following, data, data.log_start_offset, begin_anew=True)
        elif error:
            fetcher.back_off(following, now_ms)
        elif data.diverging_epoch >= 0 or data.diverging_end_offset >= 0:
            log = partition.log
            own_epoch, own_end = log.leader_epochs.end_offset_of(data.diverging_epoch, log.log_end_offset)
            end_offset = min(data.diverging_end_offset, own_end) if own_epoch >= 0 else data.diverging_end_offset
            self._cut(fetcher, following, data, end_offset, begin_anew=False)
        elif len(data.records):
            self._append(fetcher, following, data)
        else:
            self._hear(partition, data.high_watermark, data.log_start_offset)

    def _cut(
        self, fetcher: Fetcher, following: FollowingPartition, data: ReplicaData, offset: int, *, begin_anew: bool
    ) -> None:
        partition = following.partition
        effect = partition.log.take_truncation(offset, begin_anew=begin_anew)
        fetcher.busy(following)
        self._leaders_word[partition.log] = (data.high_watermark, data.log_start_offset)
        self._outbox.add_effect(effect)

    def _append(self, fetcher: Fetcher, following: FollowingPartition, data: ReplicaData) -> None:
        log = following.partition.log
        problem = log.append_replicated(memoryview(data.records), following)
        if problem is not None:
            fetcher.failed(following)
            self._says.report(following.partition, problem)
            return
        fetcher.busy(following)
        self._leaders_word[log] = (data.high_watermark, data.log_start_offset)

    def on_written(self, effect: WriteEffect) -> None:
        """A write of ours, or the last of several, is done: the leader may know."""
        self._done(effect.log)

    def on_truncated(self, effect: TruncateEffect) -> None:
        effect.log.on_truncated(effect)
        self._done(effect.log)

    def _done(self, log: PartitionLog) -> None:
        partition = self._replicas.by_log.get(log)
        if partition is None or not log.is_written_out:
            return
        high_watermark, log_start_offset = self._leaders_word.pop(log, (-1, -1))
        self._hear(partition, high_watermark, log_start_offset)
        for fetcher in self._fetchers.values():
            following = fetcher.done(log)
            if following is not None:
                fetcher.moved(following)

    def _hear(self, partition: Partition, high_watermark: int, log_start_offset: int) -> None:
        """The leader's watermark, as far as our log goes, and the start of its log."""
        if partition.leading:
            return
        partition.high_watermark = max(partition.high_watermark, min(high_watermark, partition.log.log_end_offset))
        if log_start_offset > partition.log.log_start_offset:
            partition.log.move_log_start(min(log_start_offset, partition.high_watermark))
