"""Purgatory: rules 6 to 9, and the memory of those that wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barnabas.channel.messages import FetchCondition, ParkProduce, ProduceCondition
from barnabas_gateway.core.requests.produce import PendingProduce
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.core.waiting import (
    NONE,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    DelayedFetch,
    ParkedFetch,
    ParkedProduce,
    ProduceWait,
)
from barnabas_purgatory.core.watches import Measure, PartitionWatch, Standing, Wait, WaitHeap
from tests.sim.mutants.planting import LEADERS, Mutants, replace_in

PURGATORY = Mutants("purgatory")


@PURGATORY.breaks("8", LEADERS)
def purgatory_ignores_epochs() -> None:
    def standing(self: PartitionWatch, leader_epoch: int, measure: Measure) -> Standing:
        return Standing.LEADING if self.state is not None and self.state.leading else Standing.UNKNOWN

    replace_in(PartitionWatch, "standing", standing)
    replace_in(PurgatoryCore, "metadata_applied", lambda self, image: None)


@PURGATORY.breaks("8")
def purgatory_ignores_topic_ids() -> None:
    original = PurgatoryCore.partition_states

    def partition_states(self: PurgatoryCore, node_id: int, states: list[Any]) -> None:
        original(self, node_id, states)
        for state in states:
            for watch in self._watches:
                topic_id, partition = watch.key
                if partition == state.partition and topic_id != state.topic_id:
                    watch.learn(state)
                    self._look_at(watch, False)

    replace_in(PurgatoryCore, "partition_states", partition_states)


@PURGATORY.breaks("8")
def purgatory_is_one_offset_early() -> None:
    original = ProduceWait.__init__

    def init(self: ProduceWait, entry: Any, watch: PartitionWatch, condition: Any) -> None:
        original(self, entry, watch, condition)
        self.required_offset -= 1

    replace_in(ProduceWait, "__init__", init)


@PURGATORY.breaks("8")
def purgatory_looks_before_it_watches() -> None:
    """What is known already when an entry is parked is not looked at: a lost wake-up."""
    original = PurgatoryCore.park_produce

    def park_produce(self: PurgatoryCore, stream_id: int, park: ParkProduce, now_ms: int) -> None:
        known = {watch: watch.state for watch in self._watches}
        for watch in known:
            watch.state = None
        original(self, stream_id, park, now_ms)
        for watch, state in known.items():
            watch.state = state

    replace_in(PurgatoryCore, "park_produce", park_produce)


@PURGATORY.breaks("7", LEADERS)
def leader_change_leaves_produces_parked() -> None:
    """What was parked under an older epoch waits for its timeout."""
    original = PartitionWatch.standing

    def standing(self: PartitionWatch, leader_epoch: int, measure: Measure) -> Standing:
        found = original(self, leader_epoch, measure)
        return Standing.UNKNOWN if found in (Standing.ENDED, Standing.FOLLOWING) else found

    replace_in(PartitionWatch, "standing", standing)
    replace_in(PurgatoryCore, "metadata_applied", lambda self, image: None)


@PURGATORY.breaks_for(
    "6",
    "tests/unit/purgatory/test_purgatory.py::test_a_shrinking_isr_completes_nothing_but_is_judged_at_the_watermark",
)
def minimum_isr_is_not_looked_at_after_the_append() -> None:
    original = ProduceWait.judge

    def judge(self: ProduceWait) -> int | None:
        code = original(self)
        return NONE if code == NOT_ENOUGH_REPLICAS_AFTER_APPEND else code

    replace_in(ProduceWait, "judge", judge)


@PURGATORY.breaks("9", LEADERS)
def fetches_sleep_through_a_change_of_leader() -> None:
    """And through a log start that moves past them."""
    replace_in(DelayedFetch, "must_read_again", lambda self: False)
    original = PurgatoryCore._fence_all

    def fence_all(self: PurgatoryCore, heap: WaitHeap, code: int) -> None:
        if heap.measure is Measure.HIGH_WATERMARK:
            original(self, heap, code)

    replace_in(PurgatoryCore, "_fence_all", fence_all)


@PURGATORY.breaks("9")
def fetches_sleep_through_the_watermark() -> None:
    original = WaitHeap.pop_reached

    def pop_reached(self: WaitHeap, value: int, waits_max: int) -> list[Wait]:
        return original(self, value, waits_max) if self.measure is Measure.HIGH_WATERMARK else []

    replace_in(WaitHeap, "pop_reached", pop_reached)
    replace_in(WaitHeap, "has_reached", lambda self, value: False)


_AS_A_LOOK_AT_EVERYTHING = "tests/property/test_purgatory.py::test_purgatory_completes_what_a_look_at_everything_would"
_ADD_UP = "tests/unit/purgatory/test_purgatory.py::test_bytes_of_several_partitions_add_up_move_by_move"


@PURGATORY.breaks_for("9", _ADD_UP)
def bytes_of_a_fetch_are_counted_twice() -> None:
    original = DelayedFetch.count_bytes

    def count_bytes(self: DelayedFetch) -> None:
        before = self.entry.bytes_missing
        original(self)
        self.entry.bytes_missing -= before - self.entry.bytes_missing

    replace_in(DelayedFetch, "count_bytes", count_bytes)


@PURGATORY.breaks_for("9", _ADD_UP)
def bytes_of_a_fetch_are_forgotten() -> None:
    """Only what the last move brought counts."""
    original = DelayedFetch.count_bytes

    def count_bytes(self: DelayedFetch) -> None:
        before = self.entry.bytes_missing
        original(self)
        if self.entry.bytes_missing > 0:
            self.entry.bytes_missing = before

    replace_in(DelayedFetch, "count_bytes", count_bytes)


@PURGATORY.breaks_for("8", _AS_A_LOOK_AT_EVERYTHING)
def a_long_entry_is_queued_without_a_look() -> None:
    """What is known of a partition when its turn comes is not looked at: a lost wake-up."""

    def register_produce(
        self: PurgatoryCore, entry: ParkedProduce, conditions: list[ProduceCondition]
    ) -> Iterator[int]:
        for each in conditions:
            watch = self._watches.watch(each.leader_id, (each.topic_id, each.partition))
            wait = ProduceWait(entry, watch, each)
            entry.waits.append(wait)
            wait.heap.push(wait.required_offset, wait)
            yield 1

    replace_in(PurgatoryCore, "_register_produce", register_produce)


@PURGATORY.breaks_for(
    "7", "tests/regressions/test_turns_of_what_is_parked.py::test_states_wait_behind_each_other_in_their_order"
)
def states_overtake_each_other() -> None:
    """What has to wait for a later turn is applied behind what comes then."""

    def partition_states(self: PurgatoryCore, node_id: int, states: list[Any]) -> None:
        for state in states:
            self._apply_state(node_id, state)

    replace_in(PurgatoryCore, "partition_states", partition_states)


@PURGATORY.breaks_for(
    "9",
    "tests/regressions/test_turns_of_what_is_parked.py::test_an_entry_that_ends_while_it_is_being_parked_leaves_nothing",
)
def an_entry_that_has_ended_is_parked_on() -> None:
    def register_fetch(self: PurgatoryCore, entry: ParkedFetch, conditions: list[FetchCondition]) -> Iterator[int]:
        for each in conditions:
            watch = self._watches.watch(each.leader_id, (each.topic_id, each.partition))
            wait = DelayedFetch(entry, watch, each)
            entry.waits.append(wait)
            wait.queue()
            yield 1

    replace_in(PurgatoryCore, "_register_fetch", register_fetch)


@PURGATORY.breaks("I16")
def purgatory_forgets_to_unwatch() -> None:
    replace_in(type(PurgatoryCore(0)._watches), "left", lambda self, key, watch: None)


@PURGATORY.breaks("8")
def lost_entry_is_success() -> None:
    def pod_lost(self: PendingProduce) -> None:
        self.pod = None
        self._respond()

    replace_in(PendingProduce, "pod_lost", pod_lost)
