"""A few Fetches of thousands of partitions kept purgatory from all its other clients, and from its streams.

Each partition that moved cost a walk over all partitions of the entry and a heap item for each: with 10,000 partitions
and a `fetch.min.bytes` that was never reached 17 ms a move, and a message with 50 moves 865 ms. Parking such an entry
was one turn of 100 ms, and its end another one.
"""

from __future__ import annotations

import pytest

from barnabas.channel.messages import (
    Completion,
    FetchCondition,
    Outcome,
    ParkFetch,
    ParkGroup,
    ParkProduce,
    PartitionState,
    ProduceCondition,
)
from barnabas.channel.messages import GroupState as StateOfGroup
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import PartitionMetadata, TopicMetadata, UpdateMetadata
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.core.turn_work import STEPS_PER_TURN
from tests.compiled import COUNTS, interpreted_only
from tests.costly.instructions import counted_lines

TOPIC = b"t" * 16
NODE = 1
STREAM = 7
PARTITIONS = 10_000
LINES_PER_TURN = 60 * STEPS_PER_TURN
"""Of about 0.1 µs to 0.3 µs each."""


def fetch(entry_id: int, partitions: int = PARTITIONS, bytes_wanted: int = 50_000_000, epoch: int = 4) -> ParkFetch:
    conditions = [FetchCondition(TOPIC, each, NODE, epoch, 0, 0, 0) for each in range(partitions)]
    return ParkFetch(entry_id, 500, bytes_wanted, conditions)


def produce(entry_id: int) -> ParkProduce:
    return ParkProduce(entry_id, 500, [ProduceCondition(TOPIC, each, NODE, 4, 10) for each in range(PARTITIONS)])


def state(partition: int, position: int, epoch: int = 4) -> PartitionState:
    return PartitionState(TOPIC, partition, epoch, position, position, 0, position, True, True, True)


class Pod:
    """A pod, and the longest of its turns."""

    def __init__(self) -> None:
        self.core = PurgatoryCore(now_ms=0)
        self.core.logstore_up(NODE)
        self.now_ms = 0
        self.completions: list[Completion] = []
        self.watched = 0
        self.turns = 0
        self.fewest_steps_left = STEPS_PER_TURN

    def take_turns(self) -> None:
        while True:
            self.core.expire(self.now_ms)
            self.fewest_steps_left = min(self.fewest_steps_left, self.core._work.steps_left)
            outputs = self.core.take_outputs()
            self.completions += outputs.completions.get(STREAM, [])
            self.watched += len(outputs.watches.get(NODE, [])) - len(outputs.unwatches.get(NODE, []))
            self.turns += 1
            due_ms = self.core.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                return

    def takes_a_turn(self) -> int:
        """Return the lines of one."""
        with counted_lines() as count:
            self.core.expire(self.now_ms)
            self.core.take_outputs()
        return count.lines


@pytest.fixture
def pod() -> Pod:
    return Pod()


@pytest.fixture
def parked(pod: Pod) -> Pod:
    """With an entry of many partitions, all of them known."""
    pod.core.park_fetch(STREAM, fetch(1), 0)
    pod.take_turns()
    pod.core.partition_states(NODE, [state(each, 0) for each in range(PARTITIONS)])
    pod.take_turns()
    pod.fewest_steps_left = STEPS_PER_TURN
    return pod


def test_a_move_costs_the_same_whatever_else_its_entry_waits_for(parked: Pod) -> None:
    moves = 50
    parked.core.partition_states(NODE, [state(each, 100) for each in range(moves)])
    assert parked.core._work.steps_left == STEPS_PER_TURN - 2 * moves


@interpreted_only(COUNTS)
def test_lines_per_move_do_not_grow_with_the_entry(parked: Pod) -> None:
    small = Pod()
    small.core.park_fetch(STREAM, fetch(1, partitions=2), 0)
    small.take_turns()
    with counted_lines() as of_small:
        small.core.partition_states(NODE, [state(1, 100)])
    with counted_lines() as of_large:
        parked.core.partition_states(NODE, [state(1, 100)])
    assert of_large.lines <= of_small.lines
    assert of_small.lines < 150


def test_an_entry_of_thousands_of_partitions_is_parked_over_several_turns(pod: Pod) -> None:
    pod.core.park_fetch(STREAM, fetch(1), 0)
    pod.core.park_produce(STREAM, produce(2), 0)
    pod.take_turns()
    assert pod.watched == PARTITIONS
    assert pod.turns >= 2 * PARTITIONS / STEPS_PER_TURN
    assert pod.fewest_steps_left >= -1


def test_what_moves_while_an_entry_is_being_parked_is_counted_once(pod: Pod) -> None:
    pod.core.park_fetch(STREAM, fetch(1, bytes_wanted=PARTITIONS), 0)
    pod.core.take_outputs()
    # Some of these are watched by now. The present state of the others is the logstore's answer to the watch.
    pod.core.partition_states(NODE, [state(each, 1) for each in range(1, PARTITIONS)])
    pod.take_turns()
    pod.core.partition_states(NODE, [state(each, 1) for each in range(1, PARTITIONS)])
    pod.take_turns()
    assert pod.completions == []
    pod.core.partition_states(NODE, [state(0, 1)])
    pod.take_turns()
    assert pod.completions == [Completion(1, Outcome.SATISFIED, [])]
    assert pod.core.entries == 0


@pytest.mark.parametrize("end", ["cancelled", "closed", "expired", "fenced"])
def test_an_end_of_many_long_entries_is_spread_over_turns(parked: Pod, end: str) -> None:
    for entry_id in range(2, 6):
        parked.core.park_fetch(STREAM, fetch(entry_id), 0)
        parked.take_turns()
    parked.fewest_steps_left, parked.turns = STEPS_PER_TURN, 0
    match end:
        case "cancelled":
            for entry_id in range(1, 6):
                parked.core.cancel(STREAM, entry_id)
        case "closed":
            parked.core.stream_closed(STREAM)
        case "expired":
            parked.now_ms = 1_000
        case _:
            parked.core.partition_states(NODE, [state(3, 0, epoch=5)])
    parked.take_turns()
    is_answered = end in ("expired", "fenced")
    assert sorted(each.entry_id for each in parked.completions) == ([1, 2, 3, 4, 5] if is_answered else [])
    assert parked.core.entries == parked.core.watched_partitions == parked.watched == 0
    assert parked.turns >= 5 * PARTITIONS / STEPS_PER_TURN
    assert parked.fewest_steps_left >= -10


def test_an_entry_that_ends_while_it_is_being_parked_leaves_nothing(pod: Pod) -> None:
    pod.core.park_fetch(STREAM, fetch(1), 0)
    pod.core.park_produce(STREAM, produce(2), 0)
    pod.core.take_outputs()
    pod.core.cancel(STREAM, 1)
    pod.now_ms = 1_000
    pod.take_turns()
    assert pod.completions == [Completion(2, Outcome.EXPIRED, [7] * PARTITIONS)]
    assert pod.core.entries == pod.core.watched_partitions == 0


def test_a_produce_that_is_being_parked_is_answered_once_with_every_code(pod: Pod) -> None:
    pod.core.park_produce(STREAM, produce(1), 0)
    pod.take_turns()
    pod.core.partition_states(NODE, [state(each, 10) for each in range(PARTITIONS)])
    pod.take_turns()
    assert pod.completions == [Completion(1, Outcome.SATISFIED, [0] * PARTITIONS)]


def test_states_wait_behind_each_other_in_their_order(pod: Pod) -> None:
    """A logstore says that an offset is committed, then that another leads."""
    many = 3 * STEPS_PER_TURN
    for entry_id in range(many):
        pod.core.park_produce(STREAM, ParkProduce(entry_id, 500, [ProduceCondition(TOPIC, 0, NODE, 4, 10)]), 0)
        pod.core.take_outputs()
    pod.core.partition_states(NODE, [state(0, 10)])
    pod.core.partition_states(NODE, [state(0, 10, epoch=6)])
    pod.take_turns()
    assert [each.outcome for each in pod.completions] == [Outcome.SATISFIED] * many
    assert pod.turns > 2


def test_a_new_image_is_looked_at_over_several_turns(parked: Pod) -> None:
    image = ClusterImage()
    partitions = [PartitionMetadata(each, 2, 5, 9, (1, 2), (2,)) for each in range(PARTITIONS)]
    image.apply(UpdateMetadata(1, True, "c", 1, [], [], [TopicMetadata("t", TOPIC, {}, partitions)]))
    parked.core.metadata_applied(image)
    parked.turns = 0
    parked.take_turns()
    assert parked.completions == [Completion(1, Outcome.FENCED, [])]
    assert parked.turns >= PARTITIONS / STEPS_PER_TURN
    assert parked.fewest_steps_left >= -10


def test_watches_are_begun_again_over_several_turns(parked: Pod) -> None:
    parked.core.logstore_down(NODE)
    parked.take_turns()
    parked.watched = 0
    parked.core.logstore_up(NODE)
    outputs = parked.core.take_outputs()
    assert 0 < len(outputs.watches[NODE]) <= STEPS_PER_TURN
    parked.watched = len(outputs.watches[NODE])
    parked.take_turns()
    assert parked.watched == PARTITIONS


def test_members_of_one_group_are_answered_over_several_turns(pod: Pod) -> None:
    members = 2 * STEPS_PER_TURN
    for entry_id in range(members):
        pod.core.park_group(STREAM, ParkGroup(entry_id, 500, TOPIC, 0, NODE, 4, "g", 3), 0)
        pod.core.take_outputs()
    pod.core.group_states(NODE, [StateOfGroup(TOPIC, 0, "g", 4, 3)])
    pod.take_turns()
    assert len(pod.completions) == members
    assert pod.turns > 2


@interpreted_only(COUNTS)
def test_no_turn_is_long_with_several_entries_of_all_partitions(parked: Pod) -> None:
    """Parked, moved, expired: whatever comes together, a turn has its number of steps."""
    for entry_id in range(2, 6):
        parked.core.park_fetch(STREAM, fetch(entry_id), 0)
    longest = parked.takes_a_turn()
    parked.core.partition_states(NODE, [state(each, 1) for each in range(PARTITIONS)])
    parked.now_ms = 1_000
    while (due_ms := parked.core.next_deadline_ms()) is not None and due_ms <= parked.now_ms:
        longest = max(longest, parked.takes_a_turn())
    assert parked.core.entries == 0
    assert longest < LINES_PER_TURN
