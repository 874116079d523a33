"""One partition's next state, rule by rule; and what holds after any of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER
from services.controller.core.partition_changes import (
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

RULES = TopicRules()
MIN_2 = TopicRules(min_insync_replicas=2)
UNCLEAN = TopicRules(unclean_election=True)


def live(
    *node_ids: int,
    stopping: tuple[int, ...] = (),
    suspect: tuple[int, ...] = (),
    full: tuple[int, ...] = (),
    life: int = 0,
) -> Liveness:
    """Node n is registered at 100 × n + life."""
    epochs = {each: 100 * each + life for each in node_ids}
    return Liveness(epochs, frozenset(stopping), frozenset(suspect), full=frozenset(full))


def partition(
    *in_sync: int,
    replicas: tuple[int, ...] = (1, 2, 3),
    leader: int | None = None,
    eligible: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    recovering: bool = False,
) -> PartitionRecord:
    """In epochs 7 and 9, led by the first of the ISR."""
    leads = in_sync[0] if leader is None else leader
    return PartitionRecord(
        leader=leads,
        leader_epoch=7,
        partition_epoch=9,
        replicas=replicas,
        in_sync_replicas=in_sync,
        leader_broker_epoch=NO_EPOCH if leads == NO_LEADER else 100 * leads,
        adding_replicas=adding,
        removing_replicas=removing,
        eligible_leader_replicas=eligible,
        leader_recovering=recovering,
    )


def seen(record: PartitionRecord | None) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """Leader, leader epoch, ISR, eligible leader replicas."""
    assert record is not None
    return record.leader, record.leader_epoch, record.in_sync_replicas, record.eligible_leader_replicas


# --- first state -----------------------------------------------------------------------------------------------------


def test_a_new_partition_is_led_by_its_first_live_replica_and_in_sync_with_all_that_are_live() -> None:
    record = first_state((3, 1, 2), live(1, 2))
    assert seen(record) == (1, 0, (1, 2), ())
    assert record is not None
    assert (record.replicas, record.leader_broker_epoch, record.partition_epoch) == ((3, 1, 2), 100, 0)


def test_a_new_partition_needs_a_live_replica() -> None:
    assert first_state((1, 2), live(3)) is None
    assert first_state((1, 2), live(1, 2, stopping=(1,), suspect=(2,))) is None


# --- who is gone -----------------------------------------------------------------------------------------------------


def test_where_nothing_has_happened_nothing_changes() -> None:
    record = partition(1, 2, 3)
    assert after_liveness(record, live(1, 2, 3), RULES) is record


def test_a_follower_that_is_gone_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    changed = after_liveness(partition(1, 2, 3), live(1, 2), RULES)
    assert seen(changed) == (1, 7, (1, 2), ())
    assert changed.partition_epoch == 10


def test_the_first_live_isr_member_in_the_order_of_the_replicas_leads_next() -> None:
    record = partition(1, 2, 3, replicas=(3, 1, 2))
    changed = after_liveness(record, live(2, 3), RULES)
    assert seen(changed) == (3, 8, (2, 3), ())
    assert (changed.leader_broker_epoch, changed.partition_epoch) == (300, 10)


def test_a_live_replica_that_is_not_in_sync_does_not_lead() -> None:
    assert seen(after_liveness(partition(1), live(2, 3), RULES)) == (NO_LEADER, 8, (1,), ())


def test_a_leader_that_has_restarted_makes_way_for_another_isr_member_and_stays_in_sync() -> None:
    changed = after_liveness(partition(1, 2, 3), live(1, 2, 3, life=1), RULES)
    assert seen(changed) == (2, 8, (1, 2, 3), ())
    assert changed.leader_broker_epoch == 201


def test_a_leader_that_has_restarted_leads_again_in_another_epoch_where_it_is_alone() -> None:
    changed = after_liveness(partition(1), live(1, 2, life=1), RULES)
    assert seen(changed) == (1, 8, (1,), ())
    assert changed.leader_broker_epoch == 101


def test_a_full_leader_makes_way_for_one_with_room_and_leaves_the_isr_at_once() -> None:
    changed = after_liveness(partition(1, 2, 3), live(1, 2, 3, full=(1,)), RULES)
    assert seen(changed) == (2, 8, (2, 3), ())
    assert seen(after_liveness(partition(1, 2, 3), live(1, 2, 3, full=(1, 2)), RULES)) == (3, 8, (3,), ())


def test_a_full_follower_leaves_the_isr_at_once() -> None:
    assert seen(after_liveness(partition(1, 2, 3), live(1, 2, 3, full=(3,)), RULES)) == (1, 7, (1, 2), ())


def test_where_nobody_in_sync_has_room_all_stays_as_it_is() -> None:
    record = partition(1, 2)
    assert after_liveness(record, live(1, 2, 3, full=(1, 2)), RULES) is record
    assert after_liveness(record, live(1, 2, 3, full=(1, 2, 3)), UNCLEAN) is record
    assert after_liveness(record, live(1, 2, stopping=(2,), full=(1,)), RULES).leader == 1
    alone = partition(1, replicas=(1,))
    assert after_liveness(alone, live(1, full=(1,)), RULES) is alone


def test_a_full_replica_leads_where_all_with_room_are_gone() -> None:
    assert seen(after_liveness(partition(1, 2), live(2, 3, full=(2,)), RULES)) == (2, 8, (2,), ())


def test_under_the_minimum_a_full_replica_is_eligible_still_after_those_with_room() -> None:
    changed = after_liveness(partition(1, 2), live(1, 2, 3, full=(1,)), MIN_2)
    assert seen(changed) == (2, 8, (2,), (1,))
    assert seen(after_liveness(changed, live(1, 3, full=(1,)), MIN_2)) == (1, 9, (1,), (2,))
    both = partition(3, eligible=(1, 2))
    assert seen(after_liveness(both, live(1, 2, full=(1,)), MIN_2)) == (2, 8, (2,), (1, 3))


def test_a_full_replica_is_not_preferred() -> None:
    record = partition(1, 2, leader=2)
    assert led_by_preferred(record, live(1, 2, full=(1,))) is None
    assert seen(led_by_preferred(record, live(1, 2))) == (1, 8, (1, 2), ())


def test_the_last_member_stays_leaderless_until_it_is_back() -> None:
    gone = after_liveness(partition(2), live(1, 3), RULES)
    assert seen(gone) == (NO_LEADER, 8, (2,), ())
    assert gone.leader_broker_epoch == NO_EPOCH
    assert after_liveness(gone, live(1, 3), RULES) is gone
    back = after_liveness(gone, live(1, 2, 3), RULES)
    assert seen(back) == (2, 9, (2,), ())


def test_of_members_that_are_gone_together_the_leader_is_the_last() -> None:
    assert seen(after_liveness(partition(2, 3), live(1), RULES)) == (NO_LEADER, 8, (2,), ())


# --- who may lead besides the ISR (KIP-966) --------------------------------------------------------------------------


def test_whoever_leaves_an_isr_at_its_minimum_may_lead() -> None:
    assert seen(after_liveness(partition(1, 2), live(1, 3), MIN_2)) == (1, 7, (1,), (2,))


def test_whoever_leaves_together_with_those_that_bring_it_under_its_minimum_may_lead() -> None:
    assert seen(after_liveness(partition(1, 2, 3), live(1), MIN_2)) == (1, 7, (1,), (2, 3))


def test_whoever_leaves_an_isr_that_keeps_its_minimum_may_not_lead() -> None:
    assert seen(after_liveness(partition(1, 2, 3), live(1, 2), MIN_2)) == (1, 7, (1, 2), ())
    assert seen(after_liveness(partition(1, 2), live(1), RULES)) == (1, 7, (1,), ())


def test_an_eligible_replica_leads_when_the_last_member_is_gone_which_may_lead_then() -> None:
    changed = after_liveness(partition(1, eligible=(2,)), live(2, 3), MIN_2)
    assert seen(changed) == (2, 8, (2,), (1,))


def test_an_isr_at_its_minimum_again_has_no_eligible_replicas() -> None:
    record = partition(1, eligible=(2, 3))
    assert seen(with_isr(record, [1, 3], live(1, 2, 3), MIN_2, recovered=False)) == (1, 7, (1, 3), ())


def test_a_shrink_that_the_leader_asks_for_makes_the_laggard_eligible() -> None:
    changed = with_isr(partition(1, 2), [1], live(1, 2), MIN_2, recovered=False)
    assert seen(changed) == (1, 7, (1,), (2,))


def test_a_minimum_above_the_replication_factor_counts_as_that() -> None:
    rules = TopicRules(min_insync_replicas=5)
    assert seen(after_liveness(partition(1, replicas=(1,)), live(1), rules)) == (1, 7, (1,), ())
    # The target of a move does not count before it is there.
    moving = partition(1, replicas=(2, 1), adding=(2,), removing=(1,))
    assert after_liveness(moving, live(1), rules) is moving


def test_a_lower_minimum_ends_what_rests_on_the_higher() -> None:
    record = partition(1, eligible=(2,))
    assert seen(without_eligible(record)) == seen(after_liveness(record, live(1), RULES)) == (1, 7, (1,), ())
    assert without_eligible(record).partition_epoch == 10


# --- who stops, and who may have lost records (rule 15) --------------------------------------------------------------


def test_a_stopping_logstore_leaves_the_isr_and_leads_no_more() -> None:
    assert seen(after_liveness(partition(1, 2, 3), live(1, 2, 3, stopping=(1,)), RULES)) == (2, 8, (2, 3), ())


def test_the_last_member_that_stops_is_waited_for_even_where_unclean_elections_are_allowed() -> None:
    assert seen(after_liveness(partition(1), live(1, 2, stopping=(1,)), UNCLEAN)) == (NO_LEADER, 8, (1,), ())


def test_a_suspect_leaves_the_isr_and_does_not_become_eligible() -> None:
    changed = after_liveness(partition(1, 2), live(1, 2, suspect=(2,)), MIN_2)
    assert seen(changed) == (1, 7, (1,), ())


def test_a_suspect_is_eligible_no_more() -> None:
    changed = after_liveness(partition(1, eligible=(2, 3)), live(1, 2, suspect=(2,)), MIN_2)
    assert seen(changed) == (1, 7, (1,), (3,))


def test_a_suspect_that_is_the_last_member_waits_until_it_is_none() -> None:
    suspected = after_liveness(partition(1), live(1, 2, suspect=(1,), life=1), UNCLEAN)
    assert seen(suspected) == (NO_LEADER, 8, (1,), ())
    assert seen(after_liveness(suspected, live(1, 2, life=1), UNCLEAN)) == (1, 9, (1,), ())


def test_a_suspect_that_is_the_last_member_makes_way_for_one_that_surely_has_everything() -> None:
    record = partition(1, eligible=(2, 3))
    live_heir = after_liveness(record, live(1, 2, suspect=(1,), life=1), MIN_2)
    assert seen(live_heir) == (2, 8, (2,), (3,))
    # Even one that is gone: it is waited for.
    heir_is_gone = after_liveness(record, live(1, suspect=(1,), life=1), MIN_2)
    assert seen(heir_is_gone) == (NO_LEADER, 8, (2,), (3,))


def test_of_suspects_alone_one_stays() -> None:
    both = after_liveness(partition(1, 2), live(1, 2, suspect=(1, 2), life=1), MIN_2)
    assert seen(both) == (NO_LEADER, 8, (1,), ())


def test_a_member_that_is_gone_outlasts_a_suspect() -> None:
    assert seen(after_liveness(partition(1, 2), live(1, suspect=(1,), life=1), RULES)) == (NO_LEADER, 8, (2,), ())


# --- elections on demand, and unclean ones ---------------------------------------------------------------------------


def test_an_unclean_leader_starts_alone_and_recovering() -> None:
    changed = after_liveness(partition(1, 2), live(3), UNCLEAN)
    assert seen(changed) == (3, 8, (3,), ())
    assert changed.leader_recovering


def test_an_unclean_leader_says_when_it_has_recovered() -> None:
    record = partition(3, recovering=True)
    changed = with_isr(record, [3], live(3), RULES, recovered=True)
    assert (changed.leader_recovering, changed.leader_epoch, changed.partition_epoch) == (False, 7, 10)


def test_no_election_is_unclean_while_somebody_may_lead() -> None:
    changed = after_liveness(partition(1, eligible=(2,)), live(2, 3), TopicRules(2, unclean_election=True))
    assert seen(changed) == (2, 8, (2,), (1,))
    assert not changed.leader_recovering


def test_the_preferred_leader_has_to_be_live_and_in_sync() -> None:
    record = partition(2, 1)
    assert seen(led_by_preferred(record, live(1, 2))) == (1, 8, (2, 1), ())
    assert led_by_preferred(record, live(2)) is None
    assert led_by_preferred(record, live(1, 2, stopping=(1,))) is None
    assert led_by_preferred(partition(2), live(1, 2)) is None
    led = partition(1, 2)
    assert led_by_preferred(led, live(1, 2)) is led


def test_anyone_leads_on_demand_whatever_the_topic_allows() -> None:
    offline = partition(1, leader=NO_LEADER)
    unclean = led_by_anyone(offline, live(3), RULES)
    assert seen(unclean) == (3, 8, (3,), ())
    assert unclean is not None
    assert unclean.leader_recovering
    assert led_by_anyone(offline, live(4), RULES) is None


# --- reassignments (KIP-455) -----------------------------------------------------------------------------------------


def moved(record: PartitionRecord | None) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Replicas, adding, removing."""
    assert record is not None
    return record.replicas, record.adding_replicas, record.removing_replicas


EVERYBODY = live(*range(1, 8))


def test_a_move_begins_with_both_the_targets_first() -> None:
    begun = reassigned(partition(1, 2, 3), (4, 5, 1), EVERYBODY, RULES)
    assert moved(begun) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert seen(begun) == (1, 7, (1, 2, 3), ())


def test_a_move_ends_when_its_last_target_is_in_sync_and_the_leader_goes_with_it() -> None:
    begun = reassigned(partition(1, 2, 3), (4, 5), EVERYBODY, RULES)
    assert begun is not None
    half = with_isr(begun, [1, 2, 3, 4], EVERYBODY, RULES, recovered=False)
    assert moved(half) == ((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))
    done = with_isr(half, [1, 2, 3, 4, 5], EVERYBODY, RULES, recovered=False)
    assert moved(done) == ((4, 5), (), ())
    assert seen(done) == (4, 8, (4, 5), ())
    assert done.partition_epoch == half.partition_epoch + 1


def test_a_leader_that_is_a_target_goes_on_leading() -> None:
    begun = reassigned(partition(1, 2, 3), (4, 1), EVERYBODY, RULES)
    assert begun is not None
    done = with_isr(begun, [1, 2, 3, 4], EVERYBODY, RULES, recovered=False)
    assert moved(done) == ((4, 1), (), ())
    assert seen(done) == (1, 8, (4, 1), ())


def test_fewer_replicas_or_another_order_is_done_at_once() -> None:
    assert moved(reassigned(partition(1, 2, 3), (3, 1), EVERYBODY, RULES)) == ((3, 1), (), ())
    assert moved(reassigned(partition(1, 2, 3), (3, 2, 1), EVERYBODY, RULES)) == ((3, 2, 1), (), ())
    record = partition(1, 2, 3)
    assert reassigned(record, (1, 2, 3), EVERYBODY, RULES) is record


def test_the_death_of_what_is_removed_does_not_end_a_move_that_targets_have_not_joined() -> None:
    begun = reassigned(partition(1, 2), (4, 5), EVERYBODY, RULES)
    assert begun is not None
    changed = after_liveness(begun, live(2, 4, 5), RULES)
    assert moved(changed) == (begun.replicas, (4, 5), (1, 2, 3))
    assert seen(changed) == (2, 8, (2,), ())


def test_another_move_drops_what_the_first_was_adding() -> None:
    begun = reassigned(partition(1, 2, 3), (4, 5, 6), EVERYBODY, RULES)
    assert begun is not None
    again = reassigned(begun, (1, 2, 7), EVERYBODY, RULES)
    assert moved(again) == ((1, 2, 7, 3), (7,), (3,))


def test_a_cancelled_move_brings_back_what_was() -> None:
    begun = reassigned(partition(1, 2, 3), (4, 5, 1), EVERYBODY, RULES)
    assert begun is not None
    with_4 = with_isr(begun, [1, 2, 3, 4], EVERYBODY, RULES, recovered=False)
    cancelled = reassignment_cancelled(with_4, EVERYBODY, RULES)
    assert moved(cancelled) == ((1, 2, 3), (), ())
    assert seen(cancelled) == (1, 8, (1, 2, 3), ())


def test_a_move_that_only_targets_can_lead_is_not_taken_back() -> None:
    record = partition(4, replicas=(4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
    assert reassignment_cancelled(record, EVERYBODY, RULES) is None
    assert reassigned(record, (6, 1), EVERYBODY, RULES) is None
    # In sync, and gone: nobody would lead.
    with_1 = partition(4, 1, replicas=(4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
    assert reassignment_cancelled(with_1, live(2, 4, 5), RULES) is None


# --- whatever happens ------------------------------------------------------------------------------------------------

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


@settings(max_examples=200)
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


@settings(max_examples=200)
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


@settings(max_examples=200)
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
