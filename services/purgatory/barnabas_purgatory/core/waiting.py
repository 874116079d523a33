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
    """Bytes above `fetch_position` count towards its entry while the epoch's leader leads, or its follower follows.

    `position` is up to where the log is known to be readable, and the entry's sum contains what lies between the two.
    It never goes back: what was readable under an epoch is so until the epoch ends, which ends the entry.
    """

    __slots__ = ("entry", "fetch_offset", "position")

    def __init__(self, entry: ParkedFetch, watch: PartitionWatch, condition: FetchCondition) -> None:
        is_stable = condition.isolation_level == READ_COMMITTED
        if condition.from_follower:
            measure = Measure.REPLICA_STABLE_POSITION if is_stable else Measure.REPLICA_POSITION
        else:
            measure = Measure.STABLE_POSITION if is_stable else Measure.POSITION
        super().__init__(watch.heap(condition.leader_epoch, measure))
        self.entry = entry
        self.fetch_offset = condition.fetch_offset
        self.position = condition.fetch_position

    def must_read_again(self) -> bool:
        """Whether waiting is over whatever the bytes: leader, epoch or directory lost, or the log now starts beyond the
        offset."""
        watch, leader_epoch = self.heap.watch, self.heap.leader_epoch
        if watch.standing(leader_epoch, self.heap.measure) is Standing.UNKNOWN:
            return False
        return not watch.may_wait(leader_epoch, self.heap.measure) or (
            watch.state is not None and watch.state.log_start_offset > self.fetch_offset
        )

    def count_bytes(self) -> None:
        """Count what is known to be readable by now towards the entry."""
        watch, leader_epoch, measure = self.heap.watch, self.heap.leader_epoch, self.heap.measure
        if watch.standing(leader_epoch, measure) is Standing.UNKNOWN or not watch.may_wait(leader_epoch, measure):
            return
        position = watch.value(measure)
        if position > self.position:
            self.entry.bytes_missing -= position - self.position
            self.position = position

    def queue(self) -> None:
        """Queue it at the position that changes something: alone, that which completes the entry, else the next."""
        entry = self.entry
        self.heap.push(self.position + (entry.bytes_missing if entry.conditions == 1 else 1), self)


class ParkedProduce(TimerTask):
    """An acks=all produce: every condition gets its own error code; the last one ends the entry.

    `waits` are those conditions that are registered, in order: all of them, but while a long entry is being parked.
    """

    __slots__ = ("conditions", "entry_id", "has_ended", "pending", "stream_id", "waits")

    def __init__(self, stream_id: int, entry_id: int, deadline_ms: int, conditions: int) -> None:
        super().__init__(deadline_ms)
        self.stream_id = stream_id
        self.entry_id = entry_id
        self.conditions = conditions
        self.pending = conditions
        """Conditions without an error code."""
        self.waits: list[ProduceWait] = []
        self.has_ended = False

    def outcome(self) -> Outcome:
        for wait in self.waits:
            if wait.error_code:
                return Outcome.FENCED
        return Outcome.SATISFIED

    def error_codes(self) -> list[int]:
        """Return a code per condition; nothing is known of those that are not registered."""
        codes = [wait.error_code for wait in self.waits]
        return codes + [REQUEST_TIMED_OUT] * (self.conditions - len(codes))


class ParkedFetch(TimerTask):
    """A long poll: it ends when its conditions' bytes add up, or at the first condition that must be read again.

    A move of a partition changes one term of the sum (`DelayedFetch.count_bytes`), and no other condition is looked at.
    """

    __slots__ = ("bytes_missing", "conditions", "entry_id", "has_ended", "stream_id", "waits")

    def __init__(self, stream_id: int, entry_id: int, deadline_ms: int, bytes_wanted: int, conditions: int) -> None:
        super().__init__(deadline_ms)
        self.stream_id = stream_id
        self.entry_id = entry_id
        self.conditions = conditions
        self.bytes_missing = bytes_wanted
        """What is wanted, less what is known to be readable."""
        self.waits: list[DelayedFetch] = []
        """Those conditions that are registered: all of them, but while a long entry is being parked."""
        self.has_ended = False

    def is_satisfied(self) -> bool:
        """Whether the bytes add up; a condition that is not registered yet may still end it otherwise."""
        return self.bytes_missing <= 0 and len(self.waits) == self.conditions
