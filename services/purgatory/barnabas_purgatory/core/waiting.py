"""The entries of purgatory: conditions as data, and the only place that decides what a condition means.

An entry ends exactly once. It holds ids, epochs, offsets and a deadline, never a payload, and nothing that its
partition's watch already holds. An ended entry drops its waits, so that reference counting alone frees it.
"""

from __future__ import annotations

from barnabas.channel.messages import FetchCondition, Outcome, ProduceCondition
from barnabas.wire.errors import ErrorCode
from barnabas_purgatory.core.timing_wheel import TimerTask
from barnabas_purgatory.core.watches import Measure, PartitionWatch, Standing, Wait

NONE = int(ErrorCode.NONE)
NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)
NOT_ENOUGH_REPLICAS_AFTER_APPEND = int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)

READ_COMMITTED = 1


class ProduceWait(Wait):
    """`required_offset` must be below the high watermark of a leader that has led since the epoch of the append."""

    __slots__ = ("entry", "error_code", "required_offset")

    def __init__(self, entry: ParkedProduce, watch: PartitionWatch, condition: ProduceCondition) -> None:
        super().__init__(watch.heap(condition.leader_epoch, Measure.HIGH_WATERMARK))
        self.entry = entry
        self.required_offset = condition.required_offset
        # The condition's result; REQUEST_TIMED_OUT until it has one.
        self.error_code = REQUEST_TIMED_OUT

    def judge(self) -> int | None:
        """Return the condition's error code given the present state, or None while it has to wait."""
        watch = self.heap.watch
        standing = watch.standing(self.heap.leader_epoch, Measure.HIGH_WATERMARK)
        if standing is Standing.LEADING:
            state = watch.state
            assert state is not None
            if state.high_watermark < self.required_offset:
                return None
            # KIP-497's counterpart of the check before the append: the records are in the log, but too few replicas are
            # in sync.
            return NONE if state.in_sync_replicas_at_minimum else NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if standing is Standing.UNKNOWN:
            return None
        return KAFKA_STORAGE_ERROR if standing is Standing.OFFLINE else NOT_LEADER_OR_FOLLOWER


class DelayedFetch(Wait):
    """Bytes above `fetch_offset` count towards its entry while the epoch's leader leads, or its follower follows."""

    __slots__ = ("entry", "fetch_offset", "fetch_position")

    def __init__(self, entry: ParkedFetch, watch: PartitionWatch, condition: FetchCondition) -> None:
        is_stable = condition.isolation_level == READ_COMMITTED
        if condition.from_follower:
            measure = Measure.REPLICA_STABLE_POSITION if is_stable else Measure.REPLICA_POSITION
        else:
            measure = Measure.STABLE_POSITION if is_stable else Measure.POSITION
        super().__init__(watch.heap(condition.leader_epoch, measure))
        self.entry = entry
        self.fetch_offset = condition.fetch_offset
        self.fetch_position = condition.fetch_position

    def must_read_again(self) -> bool:
        """Whether waiting is over whatever the bytes: leader, epoch or directory lost, or the log now starts beyond the
        offset."""
        watch, leader_epoch = self.heap.watch, self.heap.leader_epoch
        if watch.standing(leader_epoch, self.heap.measure) is Standing.UNKNOWN:
            return False
        return not watch.may_wait(leader_epoch, self.heap.measure) or (
            watch.state is not None and watch.state.log_start_offset > self.fetch_offset
        )

    def position_reached(self) -> int:
        """Return up to where the log is known to be readable for this wait, at least its own position."""
        watch, leader_epoch = self.heap.watch, self.heap.leader_epoch
        is_unknown = watch.standing(leader_epoch, self.heap.measure) is Standing.UNKNOWN
        if is_unknown or not watch.may_wait(leader_epoch, self.heap.measure):
            return self.fetch_position
        return max(watch.value(self.heap.measure), self.fetch_position)


class ParkedProduce(TimerTask):
    """An acks=all produce: every condition gets its own error code; the last one ends the entry."""

    __slots__ = ("entry_id", "pending", "stream_id", "waits")

    def __init__(self, stream_id: int, entry_id: int, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.stream_id = stream_id
        self.entry_id = entry_id
        self.pending = 0
        self.waits: tuple[ProduceWait, ...] = ()

    def outcome(self) -> Outcome:
        return Outcome.FENCED if any(wait.error_code for wait in self.waits) else Outcome.SATISFIED


class ParkedFetch(TimerTask):
    """A long poll: it ends when its conditions' bytes add up, or at the first condition that must be read again."""

    __slots__ = ("bytes_wanted", "entry_id", "stream_id", "waits")

    def __init__(self, stream_id: int, entry_id: int, deadline_ms: int, bytes_wanted: int) -> None:
        super().__init__(deadline_ms)
        self.stream_id = stream_id
        self.entry_id = entry_id
        self.bytes_wanted = bytes_wanted
        self.waits: tuple[DelayedFetch, ...] = ()

    def outcome(self) -> Outcome | None:
        """Return how it ends given the present state, or None while it has to wait."""
        missing = self.bytes_wanted
        for wait in self.waits:
            if wait.must_read_again():
                return Outcome.FENCED
            missing -= wait.position_reached() - wait.fetch_position
        return Outcome.SATISFIED if missing <= 0 else None

    def queue(self) -> None:
        """Queue every wait at the value where the sum could first be complete.

        While each partition has moved less than its equal share of what is missing, the sum can't be reached; so the
        entry is checked again when one of them has moved that far, not at every move. With one condition that is exact.
        """
        reached = [wait.position_reached() for wait in self.waits]
        missing = self.bytes_wanted - sum(reached) + sum(wait.fetch_position for wait in self.waits)
        assert missing > 0
        share = -(-missing // len(self.waits))
        for wait, position in zip(self.waits, reached, strict=True):
            wait.heap.discard(wait)
            wait.heap.push(position + share, wait)
