"""One partition's next state, rule by rule."""

from __future__ import annotations

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER
from barnabas_controller.core.state.partition_changes import (
    TopicRules,
    after_liveness,
    first_state,
    led_by_anyone,
    led_by_preferred,
    reassigned,
    reassignment_cancelled,
    waits_for_leader,
    with_isr,
    without_eligible,
)
from tests.unit.controller.partition_states import MIN_2, RULES, UNCLEAN, live, partition, seen

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


def test_where_no_replica_in_sync_has_room_all_stays_as_it_is() -> None:
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


def test_a_replica_that_leaves_an_isr_at_its_minimum_may_lead() -> None:
    assert seen(after_liveness(partition(1, 2), live(1, 3), MIN_2)) == (1, 7, (1,), (2,))


def test_a_replica_that_leaves_with_those_that_bring_the_isr_under_its_minimum_may_lead() -> None:
    assert seen(after_liveness(partition(1, 2, 3), live(1), MIN_2)) == (1, 7, (1,), (2, 3))


def test_a_replica_that_leaves_an_isr_that_keeps_its_minimum_may_not_lead() -> None:
    assert seen(after_liveness(partition(1, 2, 3), live(1, 2), MIN_2)) == (1, 7, (1, 2), ())
    assert seen(after_liveness(partition(1, 2), live(1), RULES)) == (1, 7, (1,), ())


def test_an_eligible_replica_leads_when_the_last_member_is_gone_which_may_lead_then() -> None:
    changed = after_liveness(partition(1, eligible=(2,)), live(2, 3), MIN_2)
    assert seen(changed) == (2, 8, (2,), (1,))


def test_an_isr_at_its_minimum_again_has_no_eligible_replicas() -> None:
    record = partition(1, eligible=(2, 3))
    assert seen(with_isr(record, [1, 3], live(1, 2, 3), MIN_2, recovered=False)) == (1, 7, (1, 3), ())


def test_a_leader_that_goes_is_eligible_beside_one_that_has_acknowledged_nothing_yet() -> None:
    """The next leader gets the minimum together with its leader epoch."""
    changed = after_liveness(partition(1, 2, replicas=(1, 2)), live(2, unaware=(2,)), MIN_2)
    assert seen(changed) == (2, 8, (2,), (1,))


def test_a_follower_that_goes_stays_in_sync_until_a_leader_that_leads_on_has_acknowledged_the_minimum() -> None:
    record = partition(2, 1, replicas=(1, 2))
    assert after_liveness(record, live(2, unaware=(2,)), MIN_2) is record
    assert waits_for_leader(record, live(2, unaware=(2,)), MIN_2)
    assert seen(after_liveness(record, live(2), MIN_2)) == (2, 7, (2,), (1,))
    assert not waits_for_leader(record, live(2), MIN_2)
    assert seen(after_liveness(record, live(2, unaware=(2,)), RULES)) == (2, 7, (2,), ()), "the minimum is kept"


def test_a_suspect_leaves_the_isr_of_a_leader_that_has_acknowledged_nothing_yet() -> None:
    changed = after_liveness(partition(1, 2, 3), live(1, 2, suspect=(2,), unaware=(1,)), MIN_2)
    assert seen(changed) == (1, 7, (1, 3), ()), "and the third, which is gone, stays"


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
    # In sync, and gone: there would be no leader.
    with_1 = partition(4, 1, replicas=(4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
    assert reassignment_cancelled(with_1, live(2, 4, 5), RULES) is None
