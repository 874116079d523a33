"""Members that wait in purgatory agree with a model that looks at every one of them after every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.channel.messages import GroupState, Outcome, ParkGroup, WatchedGroup
from barnabas_purgatory.core.outputs import Outputs
from barnabas_purgatory.core.purgatory import PurgatoryCore

NODES = (1, 2)
TOPIC_ID = b"t" * 16
Key = tuple[int, str]
"""Node, group."""

node = st.sampled_from((1, 1, 1, 2))
group = st.sampled_from(("a", "a", "b"))
epoch = st.sampled_from((3, 3, 3, 2, 4))
action = st.one_of(
    st.tuples(st.just("park"), st.integers(0, 90), node, epoch, group, st.integers(0, 6)),
    st.tuples(st.just("park"), st.integers(0, 90), node, epoch, group, st.integers(0, 6)),
    st.tuples(st.just("moves"), node, group, st.sampled_from((3, 3, 3, 4, -1)), st.integers(0, 3)),
    st.tuples(st.just("advance"), st.integers(0, 40)),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("down"), node),
    st.tuples(st.just("up"), node),
)


@dataclass
class World:
    """The logstores, what of their groups' states has reached the pod, and who is parked there."""

    core: PurgatoryCore = field(default_factory=lambda: PurgatoryCore(now_ms=0))
    published: dict[Key, GroupState] = field(default_factory=dict)
    known: dict[Key, GroupState] = field(default_factory=dict)
    watched: dict[Key, None] = field(default_factory=dict)
    up: set[int] = field(default_factory=set)
    parked: dict[int, tuple[ParkGroup, int]] = field(default_factory=dict)
    expected: list[tuple[int, Outcome]] = field(default_factory=list)
    now_ms: int = 0

    def settle(self) -> None:
        for entry_id, (park, _) in list(self.parked.items()):
            state = self.known.get((park.leader_id, park.group_id))
            if state is None or -1 < state.coordinator_epoch < park.coordinator_epoch:
                continue
            if state.coordinator_epoch != park.coordinator_epoch:
                self.complete(entry_id, Outcome.FENCED)
            elif state.step >= park.step:
                self.complete(entry_id, Outcome.SATISFIED)

    def complete(self, entry_id: int, outcome: Outcome) -> None:
        del self.parked[entry_id]
        self.expected.append((entry_id, outcome))

    def move(self, node_id: int, group_id: str, coordinator_epoch: int, steps: int) -> None:
        """Epochs and steps only count up; -1 may come at any time."""
        key = (node_id, group_id)
        before = self.published.get(key, GroupState(TOPIC_ID, 0, group_id))
        if -1 < coordinator_epoch < before.coordinator_epoch:
            coordinator_epoch = before.coordinator_epoch
        step = before.step + steps if coordinator_epoch == before.coordinator_epoch else steps
        state = GroupState(TOPIC_ID, 0, group_id, coordinator_epoch, step)
        self.published[key] = state
        if key in self.watched:
            self.learn(key, state)

    def learn(self, key: Key, state: GroupState) -> None:
        self.known[key] = state
        self.core.group_states(key[0], [state])

    def down(self, node_id: int) -> None:
        self.core.logstore_down(node_id)
        self.up.discard(node_id)
        for table in (self.known, self.watched):
            for key in [key for key in table if key[0] == node_id]:
                del table[key]

    def turn(self) -> list[tuple[int, Outcome]]:
        """One turn of the pod; then what its watches are answered with."""
        self.settle()
        outputs = self.core.take_outputs()
        for node_id, groups in outputs.group_watches.items():
            for watched in groups:
                key = (node_id, watched.group_id)
                self.watched[key] = None
                self.learn(key, self.published.get(key, GroupState(TOPIC_ID, 0, watched.group_id)))
        self.unwatch(outputs)
        self.settle()
        after = self.core.take_outputs()
        assert not after.group_watches
        self.unwatch(after)
        completions = [*outputs.completions.get(0, []), *after.completions.get(0, [])]
        return [(each.entry_id, each.outcome) for each in completions]

    def unwatch(self, outputs: Outputs) -> None:
        for node_id, groups in outputs.group_unwatches.items():
            for watched in groups:
                assert watched == WatchedGroup(TOPIC_ID, 0, watched.group_id)
                del self.watched[node_id, watched.group_id]
                self.known.pop((node_id, watched.group_id), None)

    def act(self, entry_id: int, each: Any) -> None:
        match each:
            case ("park", wait_ms, node_id, coordinator_epoch, group_id, step):
                park = ParkGroup(entry_id, wait_ms, TOPIC_ID, 0, node_id, coordinator_epoch, group_id, step)
                self.parked[entry_id] = park, self.now_ms + wait_ms
                self.core.park_group(0, park, self.now_ms)
            case ("moves", node_id, group_id, coordinator_epoch, steps):
                self.move(node_id, group_id, coordinator_epoch, steps)
            case ("advance", ms):
                self.now_ms += ms
                self.core.expire(self.now_ms)
                for late in [entry for entry, (_, deadline_ms) in self.parked.items() if deadline_ms <= self.now_ms]:
                    self.complete(late, Outcome.EXPIRED)
            case ("cancel", late_id):
                self.parked.pop(late_id, None)
                self.core.cancel(0, late_id)
            case ("down", node_id):
                self.down(node_id)
            case ("up", node_id) if node_id not in self.up:
                self.core.logstore_up(node_id)
                self.up.add(node_id)


@given(actions=st.lists(action, min_size=15, max_size=50))
def test_members_go_on_when_a_look_at_everything_would_have_them(actions: list[Any]) -> None:
    world = World()
    for entry_id, each in enumerate([("up", 1), *actions]):
        world.act(entry_id, each)
        assert sorted(world.turn()) == sorted(world.expected)
        world.expected.clear()
        assert world.core.entries == len(world.parked)
    world.core.expire(world.now_ms + 1_000)
    world.core.take_outputs()
    assert (world.core.entries, world.core.watched_groups, world.core.next_deadline_ms()) == (0, 0, None)
