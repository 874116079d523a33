"""Fetches from one leader: an incremental fetch session over one stream (KIP-227).

The next fetch waits until the records of the last one are written: it acknowledges them for the leader's high
watermark. A log that is being truncated, or whose disk is full, does not delay the others: it is only not named until
it has a position to send. Then the outstanding fetch is not waited for either: the leader answers it as soon as another
arrives.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from barnabas.channel.messages import ReplicaFetch, ReplicaPiece, ReplicaPosition
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.throttles import Throttles


@dataclass(slots=True, frozen=True)
class FetchLimits:
    """`replica.fetch.response.max.bytes`, `replica.fetch.max.bytes`, `replica.fetch.wait.max.ms`,
    `replica.fetch.backoff.ms`.
    """

    response_bytes_max: int = 10 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    wait_ms_max: int = 500
    backoff_ms: int = 1000


class Stage(Enum):
    TO_TELL = "its position is sent with the next fetch"
    REPORTED = "the leader knows its position"
    WRITING = "its log is being written, and its position moves"
    CUTTING = "its log is about to be truncated, or being truncated"
    THROTTLED = "the replication quota is used up: to be sent once it is kept again"
    BACKING_OFF = "an error, here or at the leader: to be sent again in a while"
    FAILED = "its log and the leader's are inconsistent: nothing more until the controller sends a new state"

    # Each is a singleton; Enum's own hash is implemented in Python, and a fetch looks up dozens of stages.
    __hash__ = object.__hash__


@dataclass(slots=True, frozen=True)
class Position:
    """The position that is sent to a leader: an answer for any other position is ignored."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(slots=True, eq=False)
class FollowedPartition:
    """One slot of the session. `word` is what the leader sent along with the records that are being written, or with
    the truncation: its high watermark and its log start.
    """

    slot: int
    partition: Partition
    leader_epoch: int = -1
    stage: Stage = Stage.TO_TELL
    position: Position | None = None
    is_known: bool = False
    """Whether the leader has received the slot in this session."""
    is_in_sync: bool = False
    """Whether, by the last answer, our log ends at the leader's watermark or after it."""
    reported_in: int = 0
    """The last fetch that has named the slot: an answer to an older one is about another position."""
    retry_ms: int = 0
    word: tuple[int, int] = (-1, -1)
    records: memoryview | None = None
    """What is appended once the log is truncated: fetched again, it would be before the leader's log start."""


class Fetcher:
    """`is_connected` begins with the leader's welcome and ends with the stream."""

    def __init__(self, limits: FetchLimits, throttles: Throttles) -> None:
        self.is_connected = False
        self._limits = limits
        self._throttles = throttles
        self._by_key: dict[PartitionKey, FollowedPartition] = {}
        self._by_slot: dict[int, FollowedPartition] = {}
        # By stage, in the order in which they entered it.
        self._at: dict[Stage, dict[FollowedPartition, None]] = {stage: {} for stage in Stage}
        self._forgotten: list[int] = []
        self._next_slot = 0
        self._last_request_id = 0
        self._outstanding: list[int] = []

    @property
    def is_idle(self) -> bool:
        """Whether no partition is followed: the stream may be closed."""
        return not self._by_key

    def of(self, key: PartitionKey) -> FollowedPartition | None:
        return self._by_key.get(key)

    def at(self, stage: Stage) -> list[FollowedPartition]:
        return list(self._at[stage])

    # --- who is followed ---

    def is_fetching(self, partition: Partition) -> bool:
        """Whether it is fetched under its present leader epoch, and has not failed."""
        followed = self._by_key.get(partition.key)
        if followed is None or followed.stage is Stage.FAILED:
            return False
        return followed.leader_epoch == partition.leader_epoch

    def follow(self, partition: Partition) -> None:
        """Fetch this partition from now on, or under another epoch than before."""
        followed = self._by_key.get(partition.key)
        if followed is None:
            self._next_slot += 1
            followed = FollowedPartition(self._next_slot, partition)
            self._by_key[partition.key] = self._by_slot[followed.slot] = followed
        followed.leader_epoch = partition.leader_epoch
        followed.position = None
        followed.word = (-1, -1)
        followed.records = None
        followed.is_in_sync = False
        # What was appended under another leader is written first; then its end can be sent.
        self.move(followed, Stage.TO_TELL if partition.log.writes.is_idle else Stage.WRITING)

    def forget(self, key: PartitionKey) -> None:
        followed = self._by_key.pop(key, None)
        if followed is None:
            return
        del self._by_slot[followed.slot]
        # It is at no stage if something unexpected has ended `follow`.
        self._at[followed.stage].pop(followed, None)
        if followed.is_known:
            self._forgotten.append(followed.slot)

    def move(self, followed: FollowedPartition, stage: Stage) -> None:
        self._at[followed.stage].pop(followed, None)
        followed.stage = stage
        self._at[stage][followed] = None

    def back_off(self, followed: FollowedPartition, now_ms: int) -> None:
        followed.retry_ms = now_ms + self._limits.backoff_ms
        self.move(followed, Stage.BACKING_OFF)

    # --- the stream ---

    def connected(self) -> None:
        """The leader has welcomed us: a new session, in which no slot is known."""
        self.is_connected = True
        self._outstanding.clear()
        self._forgotten.clear()
        for followed in self._by_key.values():
            followed.is_known = False
            followed.position = None
            if followed.stage is Stage.REPORTED or followed.stage is Stage.BACKING_OFF:
                self.move(followed, Stage.TO_TELL)

    def disconnected(self) -> None:
        self.is_connected = False
        self._outstanding.clear()

    @property
    def may_fetch(self) -> bool:
        """Whether everything that answers have delivered is written, and the leader has no outstanding fetch, or one
        with fewer positions.
        """
        if not self.is_connected or self.is_idle or self._at[Stage.WRITING]:
            return False
        return not self._outstanding or (len(self._outstanding) == 1 and bool(self._at[Stage.TO_TELL]))

    def take_fetch(self, now_ms: int) -> ReplicaFetch | None:
        """Return the next fetch, if it may be sent now."""
        self._throttle(now_ms)
        if not self.may_fetch:
            return None
        for followed in self.at(Stage.BACKING_OFF):
            if followed.retry_ms > now_ms:
                continue
            if followed.partition.log.no_room is None:
                self.move(followed, Stage.TO_TELL)
            else:
                # Nothing of what it would return could be stored.
                self.back_off(followed, now_ms)
        self._last_request_id += 1
        self._outstanding.append(self._last_request_id)
        fetch = ReplicaFetch(
            self._last_request_id,
            self._limits.response_bytes_max,
            self._limits.partition_bytes_max,
            self._wait_ms(now_ms),
            [self._tell(followed) for followed in self.at(Stage.TO_TELL)],
            self._forgotten,
        )
        self._forgotten = []
        return fetch

    def _throttle(self, now_ms: int) -> None:
        """Over the rate, listed replicas that are not in sync are left out (KIP-73)."""
        if not self._throttles.follower.is_limited and not self._at[Stage.THROTTLED]:
            return
        is_exceeded = self._throttles.follower.is_exceeded(now_ms)
        for followed in self.at(Stage.THROTTLED):
            if not is_exceeded or not self._may_be_held_back(followed):
                self.move(followed, Stage.TO_TELL)
        if is_exceeded:
            for followed in self.at(Stage.TO_TELL):
                if self._may_be_held_back(followed):
                    self.move(followed, Stage.THROTTLED)

    def _may_be_held_back(self, followed: FollowedPartition) -> bool:
        return not followed.is_in_sync and self._is_listed(followed.partition)

    def _is_listed(self, partition: Partition) -> bool:
        return self._throttles.is_listed(
            partition.log.config.follower_replication_throttled_replicas, partition.partition
        )

    def brought(self, followed: FollowedPartition, byte_count: int, now_ms: int) -> None:
        """Records have arrived, in sync or not: they count for the rate."""
        if self._throttles.follower.is_limited and self._is_listed(followed.partition):
            self._throttles.follower.record(byte_count, now_ms)

    def _wait_ms(self, now_ms: int) -> int:
        """Return how long to wait: at most until the first backoff is over."""
        retries_ms = [followed.retry_ms - now_ms for followed in self._at[Stage.BACKING_OFF]]
        return max(0, min([self._limits.wait_ms_max, *retries_ms]))

    def _tell(self, followed: FollowedPartition) -> ReplicaPosition:
        partition = followed.partition
        log = partition.log
        end = log.log_end_offset
        position = Position(partition.leader_epoch, end, log.leader_epochs.epoch_of(end - 1), log.log_start_offset)
        followed.position = position
        followed.is_known = True
        followed.reported_in = self._last_request_id
        self.move(followed, Stage.REPORTED)
        return ReplicaPosition(
            followed.slot,
            partition.topic_id,
            partition.partition,
            position.leader_epoch,
            position.fetch_offset,
            position.last_fetched_epoch,
            position.log_start_offset,
        )

    # --- answers ---

    def is_answer(self, piece: ReplicaPiece) -> bool:
        return piece.request_id in self._outstanding

    def answered(self, piece: ReplicaPiece) -> None:
        """The last piece of an answer has arrived."""
        self._outstanding.remove(piece.request_id)

    def asked_of(self, slot: int, request_id: int) -> FollowedPartition | None:
        """Return the partition that data of this slot is for: None if it was forgotten, or its state has changed by
        now.

        A leader that refused it may have changed its answer since.
        """
        followed = self._by_slot.get(slot)
        if followed is None or followed.position is None or followed.stage not in (Stage.REPORTED, Stage.BACKING_OFF):
            return None
        partition, position = followed.partition, followed.position
        is_same = position.leader_epoch == partition.leader_epoch and followed.reported_in <= request_id
        return followed if is_same and position.fetch_offset == partition.log.log_end_offset else None
