"""The known state of each watched partition and its waits, ordered so that a move touches only those it may satisfy.

A partition's waits are kept in one heap per (leader epoch, measure): the measure is the number that the logstore moves
(high watermark, byte positions), the heap's order is the value at which the wait has to be looked at. A move pops the
waits that it has reached and sees no other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from enum import Enum, IntEnum

from barnabas.channel.messages import PartitionState

# A smaller heap is not worth sweeping for waits that have left.
SWEPT_ITEMS_MIN = 64
NOT_QUEUED = 0


class Measure(IntEnum):
    """The positions of a partition that waits wait for."""

    HIGH_WATERMARK = 0
    # Bytes of log below the high watermark.
    POSITION = 1
    # Bytes of log below the last stable offset, if known.
    STABLE_POSITION = 2
    # The same two for any replica (KIP-392): they were read from a follower, which may have become the leader.
    REPLICA_POSITION = 3
    REPLICA_STABLE_POSITION = 4


_STABLE = (Measure.STABLE_POSITION, Measure.REPLICA_STABLE_POSITION)


class Standing(Enum):
    """The state of an epoch at the logstore that led the partition under it, or was read there as a follower."""

    # Nothing is known yet, or what is known is older than the epoch: a newer state will be published.
    UNKNOWN = 0
    LEADING = 1
    # It has a replica under it, and another logstore leads.
    FOLLOWING = 2
    # Another epoch, or no replica any more: no watermark will ever apply to this epoch again.
    ENDED = 3
    # The log directory went offline under this epoch.
    OFFLINE = 4


class Wait:
    """One condition of a parked entry, in at most one heap at a time."""

    __slots__ = ("heap", "queued_as")

    def __init__(self, heap: WaitHeap) -> None:
        self.heap = heap
        # The heap's own number of the item for this wait; items with another number are stale.
        self.queued_as = NOT_QUEUED


class WaitHeap:
    """The waits of one partition, epoch and measure. Waits that left stay as items until half of all items are
    stale.
    """

    __slots__ = ("_items", "_sequence", "leader_epoch", "live", "measure", "watch")

    def __init__(self, watch: PartitionWatch, leader_epoch: int, measure: Measure) -> None:
        self.watch = watch
        self.leader_epoch = leader_epoch
        self.measure = measure
        self.live = 0
        self._items: list[tuple[int, int, Wait]] = []
        self._sequence = NOT_QUEUED

    def push(self, threshold: int, wait: Wait) -> None:
        """Queue `wait` to be popped once the measure has reached `threshold`."""
        assert wait.queued_as == NOT_QUEUED
        self._sequence += 1
        wait.queued_as = self._sequence
        heapq.heappush(self._items, (threshold, self._sequence, wait))
        self.live += 1
        self.watch.live += 1

    def discard(self, wait: Wait) -> None:
        """`wait` has left, if it was here."""
        if wait.queued_as == NOT_QUEUED:
            return
        wait.queued_as = NOT_QUEUED
        self.live -= 1
        self.watch.live -= 1
        if self.live == 0:
            self._items.clear()
        elif len(self._items) >= SWEPT_ITEMS_MIN and self.live * 2 < len(self._items):
            self._items = [item for item in self._items if item[2].queued_as == item[1]]
            heapq.heapify(self._items)

    def pop_reached(self, value: int, waits_max: int) -> list[Wait]:
        """Remove the waits whose threshold is at or below `value`, lowest and then oldest first, so many at most."""
        reached: list[Wait] = []
        items = self._items
        while items and items[0][0] <= value and len(reached) < waits_max:
            _, sequence, wait = heapq.heappop(items)
            if wait.queued_as == sequence:
                wait.queued_as = NOT_QUEUED
                reached.append(wait)
        self.live -= len(reached)
        self.watch.live -= len(reached)
        return reached

    def has_reached(self, value: int) -> bool:
        """Whether there may be a wait whose threshold is at or below `value`."""
        return bool(self._items) and self._items[0][0] <= value

    def pop_all(self) -> list[Wait]:
        """Remove every wait, oldest first."""
        left = sorted((item for item in self._items if item[2].queued_as == item[1]), key=_sequence_of)
        self._items.clear()
        self.live -= len(left)
        self.watch.live -= len(left)
        for _, _, wait in left:
            wait.queued_as = NOT_QUEUED
        return [wait for _, _, wait in left]

    def __iter__(self) -> Iterator[Wait]:
        return iter([item[2] for item in self._items if item[2].queued_as == item[1]])


def _sequence_of(item: tuple[int, int, Wait]) -> int:
    return item[1]


PartitionKey = tuple[bytes, int]
"""Topic id and partition."""


class PartitionWatch:
    """One partition at one logstore: its newest known state (None: unknown) and its waits."""

    __slots__ = ("heaps", "key", "live", "node_id", "stable_position", "state")

    def __init__(self, node_id: int, key: PartitionKey) -> None:
        self.node_id = node_id
        self.key = key
        self.state: PartitionState | None = None
        # A lower bound, where a logstore of an earlier release does not say it.
        self.stable_position = -1
        self.live = 0
        self.heaps: dict[tuple[int, Measure], WaitHeap] = {}

    def heap(self, leader_epoch: int, measure: Measure) -> WaitHeap:
        found = self.heaps.get((leader_epoch, measure))
        if found is None:
            found = self.heaps[(leader_epoch, measure)] = WaitHeap(self, leader_epoch, measure)
        return found

    def learn(self, state: PartitionState) -> None:
        """Apply the newest state."""
        known = self.state
        if known is None or state.leader_epoch != known.leader_epoch:
            self.stable_position = -1
        if state.last_stable_offset >= state.high_watermark:
            self.stable_position = state.high_watermark_position
        elif state.last_stable_position:
            self.stable_position = state.last_stable_position
        self.state = state

    def lose_sight(self) -> None:
        """The logstore can't be reached, and its state may have changed."""
        self.state = None
        self.stable_position = -1

    def standing(self, leader_epoch: int, measure: Measure) -> Standing:
        """Return the state of `leader_epoch` for waits of `measure`.

        A high watermark applies to appends of earlier epochs too, as long as the same logstore has led without
        interruption: its log still contains them. Readers start over with each epoch, which fences them (KIP-320).
        """
        state = self.state
        if state is None:
            return Standing.UNKNOWN
        if measure is Measure.HIGH_WATERMARK and state.leads_since(leader_epoch):
            return Standing.LEADING
        if state.leader_epoch != leader_epoch:
            # -1 means it has no such replica: a leader of `leader_epoch` did, so it has been removed or restarted.
            older = -1 < state.leader_epoch < leader_epoch
            return Standing.UNKNOWN if older else Standing.ENDED
        if not state.online:
            return Standing.OFFLINE
        return Standing.LEADING if state.leading else Standing.FOLLOWING

    def may_wait(self, leader_epoch: int, measure: Measure) -> bool:
        """Whether the measure may still move for waits under this epoch."""
        match self.standing(leader_epoch, measure):
            case Standing.UNKNOWN | Standing.LEADING:
                return True
            case Standing.FOLLOWING:
                return measure in (Measure.REPLICA_POSITION, Measure.REPLICA_STABLE_POSITION)
            case _:
                return False

    def value(self, measure: Measure) -> int:
        """Return the value of `measure`; only called while the state is known."""
        assert self.state is not None
        if measure is Measure.HIGH_WATERMARK:
            return self.state.high_watermark
        return self.stable_position if measure in _STABLE else self.state.high_watermark_position

    def drop_empty_heaps(self) -> None:
        self.heaps = {key: heap for key, heap in self.heaps.items() if heap.live}
