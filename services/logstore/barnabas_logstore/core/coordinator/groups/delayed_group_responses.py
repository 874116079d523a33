"""Calls whose answer may come in a moment: held back that long, instead of having to wait in purgatory.

A wait in purgatory costs five messages and a second call. Most waits are short: the other members of a fast rebalance,
and the leader's assignments, are some milliseconds away. A held call is in the same state as one that got the answer to
wait and whose gateway has not come back yet: nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.channel.messages import GroupCollect
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.runtime.shard import Shard
from barnabas_logstore.core.coordinator.runtime.timers import Clock, Deadline, Timers


class HeldCall(NamedTuple):
    stream_id: int
    collect: GroupCollect
    """As if its gateway had already come back for the answer."""
    until_ms: int


class DelayedGroupResponses:
    """Of one partition of `__consumer_offsets`. Time is looked at by `Timers`, groups when `take_due` is called."""

    __slots__ = (
        "_by_group",
        "_clock",
        "_deadline",
        "_deadlines",
        "_delaying",
        "_due",
        "_groups",
        "_hold_ms",
        "_shard",
        "_steps",
    )

    def __init__(
        self,
        hold_ms: int,
        groups: Groups,
        deadlines: Timers,
        clock: Clock,
        shard: Shard,
        delaying: dict[Shard, None],
    ) -> None:
        """`delaying` has the shard in it while there is anything to `take_due` sooner or later."""
        self._hold_ms = hold_ms
        self._groups = groups
        self._deadlines = deadlines
        self._clock = clock
        self._shard = shard
        self._delaying = delaying
        self._deadline = Deadline(self._look_at_time)
        self._by_group: dict[str, list[HeldCall]] = {}
        self._steps: dict[str, int] = {}
        """By group, its step when the first of its calls began to be held."""
        self._due: list[HeldCall] = []

    def try_to_hold(self, stream_id: int, collect: GroupCollect) -> bool:
        """Hold a call. Return False if its gateway should wait in purgatory instead."""
        if not self._hold_ms:
            return False
        self.hold(HeldCall(stream_id, collect, self._clock.now_ms + self._hold_ms))
        return True

    def hold(self, held: HeldCall) -> None:
        """Hold it until its time, or until its group takes a step."""
        group_id = held.collect.group_id
        self._by_group.setdefault(group_id, []).append(held)
        self._steps.setdefault(group_id, self._groups.step_of(group_id))
        if self._deadline.at_ms < 0 or held.until_ms < self._deadline.at_ms:
            self._deadlines.set(self._deadline, held.until_ms)
        self._delaying[self._shard] = None

    def _look_at_time(self) -> None:
        now_ms = self._clock.now_ms
        due = [held for calls in self._by_group.values() for held in calls if held.until_ms <= now_ms]
        kept = [held for calls in self._by_group.values() for held in calls if held.until_ms > now_ms]
        steps = self._steps
        self._by_group, self._steps = {}, {}
        for held in kept:
            self._steps.setdefault(held.collect.group_id, steps[held.collect.group_id])
            self.hold(held)
        self._due += due

    def take_due(self) -> list[HeldCall]:
        """Return the calls whose group has taken a step, and those whose time is over."""
        taken, self._due = self._due, []
        moved = [group_id for group_id, step in self._steps.items() if step != self._groups.step_of(group_id)]
        for group_id in moved:
            del self._steps[group_id]
            taken += self._by_group.pop(group_id)
        if not self._by_group:
            self._delaying.pop(self._shard, None)
        return taken

    def stop(self, answer: Callable[[HeldCall], None]) -> None:
        """Call `answer` with each of them: nothing is held any more."""
        held = self._due + [each for calls in self._by_group.values() for each in calls]
        self._by_group, self._steps, self._due = {}, {}, []
        self._delaying.pop(self._shard, None)
        for each in held:
            answer(each)
        self._deadlines.cancel(self._deadline)
