"""What holds of one partition after anything that may happen to its replicas."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER
from barnabas_controller.core.partition_changes import (
    Liveness,
    TopicRules,
    after_liveness,
    first_state,
    led_by_anyone,
    led_by_preferred,
    reassigned,
    reassignment_cancelled,
    with_isr,
    without_eligible,
)

NODES = st.integers(1, 5)
# Most replicas are these.
CRASHES = [st.tuples(st.sampled_from(["start", "die"]), st.integers(1, 3)) for _ in range(9)]
CHANGES = [
    st.tuples(st.just("start"), NODES),
    st.tuples(st.just("die"), NODES),
    st.tuples(st.just("stop"), NODES),
    st.tuples(st.just("isr"), st.sets(NODES)),
    st.tuples(st.just("recovered"), NODES),
    st.tuples(st.just("preferred"), NODES),
    st.tuples(st.just("anyone"), NODES),
    st.tuples(st.just("reassign"), st.lists(NODES, min_size=1, max_size=4, unique=True)),
    st.tuples(st.just("cancel"), NODES),
    st.tuples(st.just("minimum"), st.integers(1, 3)),
]
LOSSES = [st.tuples(st.sampled_from(["restart losing", "looked through"]), NODES) for _ in range(2)]
EVENTS = st.one_of(*CRASHES, *CHANGES, *LOSSES)


class World:
    """One partition, the logstores, and how many of the records that a leader let through each of their logs has."""

    def __init__(self, replicas: list[int], rules: TopicRules) -> None:
        self.epochs = {node_id: 100 * node_id for node_id in range(1, 6)}
        self.stopping: set[int] = set()
        self.suspect: set[int] = set()
        self.last_epoch = 1000
        self.rules = rules
        first = first_state(replicas, self.live)
        assert first is not None
        self.partition = first
        self.commit_count = 0
        # By node: how many of the commits its log has.
        self.logs = dict.fromkeys(range(1, 6), 0)

    @property
    def live(self) -> Liveness:
        return Liveness(dict(self.epochs), frozenset(self.stopping), frozenset(self.suspect))

    def happen(self, event: str, argument: object) -> None:
        match event, argument:
            case ("start" | "restart losing", int(node_id)):
                self.last_epoch += 1
                self.epochs[node_id] = self.last_epoch
                self.stopping.discard(node_id)
                self.suspect.discard(node_id)
                if event == "restart losing":
                    self.suspect.add(node_id)
                    self.logs[node_id] = 0
            case ("die", int(node_id)):
                self.epochs.pop(node_id, None)
                self.stopping.discard(node_id)
                self.suspect.discard(node_id)
            case ("stop", int(node_id)) if node_id in self.epochs:
                self.stopping.add(node_id)
            case ("looked through", int(node_id)):
                self.suspect.discard(node_id)
            case ("minimum", int(minimum)):
                # As the controller does it: nobody is eligible while it changes.
                self.become(without_eligible(self.partition))
                self.rules = replace(self.rules, min_insync_replicas=minimum)
            case ("isr", set(asked)):
                self.alter(asked)
            case ("recovered", _) if self.leads():
                members = self.partition.in_sync_replicas
                self.become(with_isr(self.partition, members, self.live, self.rules, recovered=True))
            case ("preferred", _):
                self.become(led_by_preferred(self.partition, self.live))
            case ("anyone", _) if self.partition.leader == NO_LEADER and self.rules.unclean_election:
                self.become(led_by_anyone(self.partition, self.live, self.rules))
            case ("reassign", list(target)):
                self.become(reassigned(self.partition, target, self.live, self.rules))
            case ("cancel", _) if self.partition.adding_replicas or self.partition.removing_replicas:
                self.become(reassignment_cancelled(self.partition, self.live, self.rules))
        self.become(after_liveness(self.partition, self.live, self.rules))
        assert after_liveness(self.partition, self.live, self.rules) is self.partition, "one look is enough"
        self.commit()

    def leads(self) -> bool:
        return self.partition.leader != NO_LEADER

    def alter(self, asked: set[int]) -> None:
        """The leader asks, as it may: whoever it takes in has all of its log."""
        record = self.partition
        if not self.leads() or record.leader_recovering:
            return
        members = [
            each for each in record.replicas if each == record.leader or (each in asked and self.live.is_live(each))
        ]
        for node_id in members:
            self.logs[node_id] = self.logs[record.leader]
        self.become(with_isr(record, members, self.live, self.rules, recovered=False))

    def commit(self) -> None:
        """One more record, in every log of the ISR, where the leader may let it through."""
        record = self.partition
        replication_factor = len(record.replicas) - len(record.adding_replicas)
        if self.leads() and len(record.in_sync_replicas) >= min(self.rules.min_insync_replicas, replication_factor):
            self.commit_count += 1
            for node_id in record.in_sync_replicas:
                self.logs[node_id] = self.commit_count

    def become(self, after: PartitionRecord | None) -> None:
        before = self.partition
        if after is None or after is before:
            return
        assert after != before
        self.partition = after
        members, leader = after.in_sync_replicas, after.leader
        assert members
        assert set(members) <= set(after.replicas)
        assert leader == NO_LEADER or leader in members
        assert len(set(after.replicas)) == len(after.replicas)
        assert len(set(members)) == len(members)
        assert not set(after.eligible_leader_replicas) & set(members)
        assert set(after.eligible_leader_replicas) <= set(after.replicas)
        assert set(after.adding_replicas) | set(after.removing_replicas) <= set(after.replicas)
        assert not set(after.adding_replicas) & set(after.removing_replicas)
        assert after.partition_epoch == before.partition_epoch + 1
        has_another_leader = (leader, after.leader_broker_epoch) != (before.leader, before.leader_broker_epoch)
        has_lost_a_replica = not set(before.replicas) <= set(after.replicas)
        assert after.leader_epoch == before.leader_epoch + (has_another_leader or has_lost_a_replica)
        assert leader == NO_LEADER or (leader in self.epochs and leader not in self.stopping | self.suspect)
        assert after.leader_broker_epoch == self.epochs.get(leader, NO_EPOCH) or not has_another_leader


@given(
    replicas=st.lists(NODES, min_size=1, max_size=4, unique=True),
    minimum=st.integers(1, 3),
    unclean=st.booleans(),
    events=st.lists(EVENTS, max_size=40),
)
def test_whatever_happens_the_invariants_hold(
    replicas: list[int], minimum: int, unclean: bool, events: list[tuple[str, object]]
) -> None:
    world = World(replicas, TopicRules(minimum, unclean))
    for event, argument in events:
        world.happen(event, argument)


@given(
    replicas=st.permutations([1, 2, 3]),
    minimum=st.integers(1, 3),
    events=st.lists(st.one_of(*CRASHES, *CHANGES), max_size=40),
)
def test_without_lost_disks_and_unclean_elections_every_leader_has_every_committed_record(
    replicas: list[int], minimum: int, events: list[tuple[str, object]]
) -> None:
    world = World(replicas, TopicRules(minimum))
    for event, argument in events:
        world.happen(event, argument)
        if world.leads():
            assert world.logs[world.partition.leader] == world.commit_count


@given(replicas=st.permutations([1, 2, 3]), events=st.lists(EVENTS, max_size=40))
def test_one_lost_disk_at_a_time_costs_nothing_with_a_minimum_of_two(
    replicas: list[int], events: list[tuple[str, object]]
) -> None:
    world = World(replicas, TopicRules(2))
    for event, argument in events:
        is_loss = event == "restart losing"
        # The next disk is lost when two whole logs are sure to be elsewhere.
        whole = [
            node_id for node_id, count in world.logs.items() if count == world.commit_count and node_id != argument
        ]
        sure = {*world.partition.in_sync_replicas, *world.partition.eligible_leader_replicas}.intersection(whole)
        if event == "minimum" or (is_loss and not sure):
            continue
        world.happen(event, argument)
        if world.leads():
            assert world.logs[world.partition.leader] == world.commit_count
