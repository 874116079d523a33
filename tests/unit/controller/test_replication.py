"""Partitions of several replicas as the controller sees them: how they begin, and what logstores that go do to them."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import (
    ALL_BROKERS,
    NO_LEADER,
    AlterReassignmentsRequest,
    Assignment,
    BrokerConfigs,
    NewTopic,
    Reassignment,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.settings import ElectionSettings
from tests.unit.controller.cluster import (
    KEYS,
    LEASE_MS,
    Cluster,
    alter,
    create,
    created,
    delete,
    error_codes,
    grow,
    to_set,
)
from tests.unit.controller.replicated import a_cluster, ask_to_shrink, shrink, state, touches, with_topic

# --- new partitions --------------------------------------------------------------------------------------------------


def test_a_topic_of_three_replicas_is_spread_and_every_replica_is_notified() -> None:
    cluster, controller = a_cluster()
    request = controller.request(create(NewTopic("events", 6, 3)))
    cluster.settle()
    assert [(each.error_code, each.replication_factor) for each in created(controller, request)] == [(0, 3)]
    topic_id = controller.core.image.topics["events"].topic_id
    states = [state(cluster, number) for number in range(6)]
    assert sorted(each.leader for each in states) == [1, 1, 2, 2, 3, 3]
    for number, each in enumerate(states):
        assert set(each.replicas) == {1, 2, 3} == set(each.in_sync_replicas)
        for logstore in cluster.logstores.values():
            assert logstore.partitions[topic_id, number].leader == each.leader


def test_replicas_are_in_different_racks() -> None:
    cluster = Cluster()
    controller = cluster.controller()
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    for node_id, rack in racks.items():
        cluster.logstore(node_id, rack=rack)
    cluster.settle()
    controller.request(create(NewTopic("events", 8, 2)))
    cluster.settle()
    for number in range(8):
        assert {racks[node_id] for node_id in state(cluster, number).replicas} == {"a", "b"}


def test_a_logstore_that_is_down_takes_replicas_only_where_there_are_too_few_others() -> None:
    cluster, controller = a_cluster()
    cluster.stop(2)
    cluster.settle()
    controller.request(create(NewTopic("two", 4, 2), NewTopic("three", 1, 3)))
    cluster.settle()
    assert all(set(state(cluster, number, "two").replicas) == {1, 3} for number in range(4))
    three = state(cluster, 0, "three")
    assert set(three.replicas) == {1, 2, 3}
    assert set(three.in_sync_replicas) == {1, 3}


def test_an_assignment_by_hand_is_led_by_its_first_live_replica() -> None:
    cluster, controller = a_cluster()
    cluster.stop(3)
    cluster.settle()
    assignments = [Assignment(0, [3, 2, 1]), Assignment(1, [1, 2, 3])]
    controller.request(create(NewTopic("events", -1, -1, assignments)))
    cluster.settle()
    assert [state(cluster, number).leader for number in (0, 1)] == [2, 1]
    assert state(cluster).replicas == (3, 2, 1)
    assert state(cluster).in_sync_replicas == (2, 1)


def test_new_partitions_have_as_many_replicas_as_the_topic_has_by_now() -> None:
    cluster = with_topic([1, 2])
    controller = cluster.controllers[0]
    controller.request(AlterReassignmentsRequest([Reassignment("events", 0, [1, 2, 3])], 10_000))
    cluster.settle()
    shrink(cluster, 1, 2, 3)
    controller.request(grow(("events", 2)))
    cluster.settle()
    assert len(state(cluster, 1).replicas) == 3


def test_creation_waits_for_leaders_and_not_for_followers() -> None:
    cluster, controller = a_cluster()
    cluster.logstores[2].answering = cluster.logstores[3].answering = False
    assignments = [Assignment(0, [1, 2, 3])]
    request = controller.request(create(NewTopic("events", -1, -1, assignments)))
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]


def test_a_deletion_ends_when_every_replica_is_gone() -> None:
    cluster = with_topic([1, 2, 3])
    controller = cluster.controllers[0]
    topic_id = controller.core.image.topics["events"].topic_id
    cluster.logstores[3].answering = False
    controller.request(delete("events"))
    cluster.settle()
    assert controller.core.links.deletion_waits_for(topic_id) == [3]
    cluster.logstores[3].answering = True
    cluster.settle()
    assert controller.core.image.deletions == {}
    assert all((topic_id, 0) in each.deleted for each in cluster.logstores.values())


# --- what becomes of partitions when logstores go --------------------------------------------------------------------


def test_a_death_elects_the_next_in_sync_replica_and_tells_everyone() -> None:
    cluster = with_topic([1, 2, 3])
    cluster.stop(1)
    cluster.settle()
    changed = state(cluster)
    assert (changed.leader, changed.leader_epoch, changed.in_sync_replicas) == (2, 1, (2, 3))
    topic_id = cluster.controllers[0].core.image.topics["events"].topic_id
    assert all(cluster.logstores[each].partitions[topic_id, 0].leader == 2 for each in (2, 3))


def test_records_that_may_be_lost_cost_a_restarted_logstore_its_place_in_the_isr() -> None:
    cluster = with_topic([1, 2, 3])
    restarted = cluster.logstore(2, may_lack_records=True)
    cluster.settle()
    assert state(cluster).in_sync_replicas == (1, 3)
    # Looked through: it may be in sync again under this registration, and stays so.
    shrink(cluster, 1, 2, 3)
    assert state(cluster).in_sync_replicas == (1, 2, 3)
    cluster.stop(3)
    cluster.settle()
    assert state(cluster).in_sync_replicas == (1, 2)
    assert cluster.logstores[2] is restarted


def test_the_last_replica_leads_again_whatever_it_may_have_lost() -> None:
    cluster = with_topic([1])
    cluster.logstore(1, may_lack_records=True)
    cluster.settle()
    assert (state(cluster).leader, state(cluster).in_sync_replicas) == (1, (1,))


def test_a_controller_that_takes_over_looks_suspects_through_again() -> None:
    cluster = with_topic([1, 2, 3])
    first, second = cluster.controllers[0], cluster.controller("controller-1")
    cluster.settle()
    cluster.logstore(2, may_lack_records=True)
    # The first has taken the suspect out of the ISR, and has not written yet that it is none any more.
    while state(cluster).in_sync_replicas == (1, 2, 3):
        first.step()
    first.cut_off = True
    cluster.advance(LEASE_MS + 1000)
    assert second.is_active()
    member = [record for (_, name), record in second.core.image.members.items() if name == "2"]
    assert [record.broker_epoch for record in member] == [cluster.logstores[2].broker_epoch]


def test_a_dead_leader_under_the_minimum_is_followed_by_an_eligible_replica() -> None:
    cluster = with_topic([1, 2], min_insync_replicas="2")
    shrink(cluster, 1)
    assert state(cluster).eligible_leader_replicas == (2,)
    cluster.stop(1)
    cluster.settle()
    assert (state(cluster).leader, state(cluster).eligible_leader_replicas) == (2, (1,))


def test_a_lower_minimum_is_written_after_no_replica_is_eligible_any_more() -> None:
    cluster = with_topic([1, 2], min_insync_replicas="2")
    controller = cluster.controllers[0]
    shrink(cluster, 1)
    before = len(controller.submitted)
    controller.request(alter("events", to_set("min.insync.replicas", "1")))
    cluster.settle()
    struck, configured = controller.submitted[before:]
    assert touches(struck, KEYS.partitions)
    assert touches(configured, KEYS.topics)
    assert state(cluster).eligible_leader_replicas == ()


def test_while_logstores_have_not_heard_of_a_higher_minimum_no_replica_becomes_eligible() -> None:
    cluster = with_topic([1, 2])
    controller = cluster.controllers[0]
    cluster.logstores[1].answering = False
    controller.request(alter("events", to_set("min.insync.replicas", "2")))
    cluster.settle()
    assert ask_to_shrink(cluster, 1) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert (state(cluster).in_sync_replicas, state(cluster).eligible_leader_replicas) == ((1, 2), ())
    cluster.logstores[1].answering = True
    cluster.settle()
    shrink(cluster, 1)
    assert state(cluster).eligible_leader_replicas == (2,)


def test_no_replica_becomes_eligible_beside_a_leader_that_is_cut_off_and_has_not_heard_of_a_higher_minimum() -> None:
    """It may go on alone under the minimum of before, and acknowledge what the elected leader lacks."""
    cluster = with_topic([1, 2])
    controller = cluster.controllers[0]
    leader = cluster.logstores[1]
    link = controller.links[1]
    leader.answering = False
    controller.core.on_control_disconnected(1, link.broker_epoch, cluster.now_ms)
    controller.carry_out()
    leader.unanswered.clear()
    controller.request(alter("events", to_set("min.insync.replicas", "2")))
    cluster.settle()
    assert ask_to_shrink(cluster, 1) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert (state(cluster).in_sync_replicas, state(cluster).eligible_leader_replicas) == ((1, 2), ())
    cluster.stop(1)
    cluster.settle()
    assert state(cluster).leader == 2, "it has all that the first has acknowledged"
    assert state(cluster).eligible_leader_replicas == (1,), "it leads by the minimum that came with its leader epoch"


def test_a_new_controller_makes_no_replica_eligible_beside_a_leader_that_it_does_not_reach() -> None:
    """The one before may have changed the minimum, and have gone before the leader heard of that."""
    cluster = with_topic([1, 2], min_insync_replicas="2")
    leader = cluster.logstores[1]
    cluster.controllers[0].cut_off = True
    leader.answering = False
    leader.connected = False
    leader.unanswered.clear()
    cluster.logstores[2].connected = cluster.logstores[3].connected = False
    second = cluster.controller("controller-1")
    cluster.advance(LEASE_MS + 1000)
    del cluster.controllers[0]
    assert second.is_active()
    assert ask_to_shrink(cluster, 1) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert (state(cluster).in_sync_replicas, state(cluster).eligible_leader_replicas) == ((1, 2), ())
    cluster.stop(2)
    cluster.settle()
    assert (state(cluster).in_sync_replicas, state(cluster).eligible_leader_replicas) == ((1, 2), ())
    leader.connected = leader.answering = True
    cluster.settle()
    assert (state(cluster).in_sync_replicas, state(cluster).eligible_leader_replicas) == ((1,), (2,))


def test_the_first_command_of_a_stream_carries_the_configs_of_brokers() -> None:
    """A logstore leads by that command, before it has the UpdateMetadata behind it."""
    cluster, controller = a_cluster()
    controller.request(alter("", to_set("min.insync.replicas", "2"), resource_type=4))
    cluster.settle()
    cluster.stop(1)
    cluster.settle()
    logstore = cluster.logstore(1)
    cluster.settle()
    (full,) = [each.leader_and_isr for each in logstore.requests if each.leader_and_isr and each.leader_and_isr.full]
    assert full.broker_configs == [BrokerConfigs(ALL_BROKERS, {"min.insync.replicas": "2"})]
    assert full.revision > 0


def test_the_minimum_of_a_topic_without_its_own_is_the_cluster_s_and_the_lowest_of_its_brokers() -> None:
    cluster, controller = a_cluster(settings=ElectionSettings(min_insync_replicas=2))
    controller.request(create(NewTopic("events", -1, -1, [Assignment(0, [1, 2])])))
    cluster.settle()
    shrink(cluster, 1)
    assert state(cluster).eligible_leader_replicas == (2,)
    controller.request(alter("2", to_set("min.insync.replicas", "1"), resource_type=4))
    cluster.settle()
    assert state(cluster).eligible_leader_replicas == ()
    shrink(cluster, 1, 2)
    shrink(cluster, 1)
    assert state(cluster).eligible_leader_replicas == ()


@pytest.mark.parametrize(("resource", "kind"), [("events", 2), ("", 4)])
def test_a_topic_that_comes_to_allow_it_gets_an_unclean_leader(resource: str, kind: int) -> None:
    cluster = with_topic([1, 2])
    controller = cluster.controllers[0]
    shrink(cluster, 1)
    cluster.stop(1)
    cluster.settle()
    assert state(cluster).leader == NO_LEADER
    controller.request(alter(resource, to_set("unclean.leader.election.enable", "true"), resource_type=kind))
    cluster.settle()
    assert (state(cluster).leader, state(cluster).in_sync_replicas, state(cluster).leader_recovering) == (2, (2,), True)
