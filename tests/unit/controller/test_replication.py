"""Replication as the controller sees it: several replicas, ISRs, elections, moves, shutdowns."""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import (
    NO_LEADER,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterReassignmentsRequest,
    Assignment,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    IsrChange,
    IsrMember,
    NewTopic,
    Reassignment,
)
from barnabas.ports.etcd import Put, Txn
from barnabas.wire.errors import ErrorCode
from services.controller.core.effects import Reject
from services.controller.core.settings import ElectionSettings
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import (
    KEYS,
    LEASE_MS,
    Cluster,
    ControllerNode,
    alter,
    create,
    created,
    delete,
    error_codes,
    grow,
    to_set,
)


def a_cluster(logstores: int = 3, settings: ElectionSettings | None = None) -> tuple[Cluster, ControllerNode]:
    cluster = Cluster()
    controller = cluster.controller(settings=settings)
    for node_id in range(1, logstores + 1):
        cluster.logstore(node_id)
    cluster.settle()
    return cluster, controller


def with_topic(*replicas: list[int], topic: str = "events", logstores: int = 3, **configs: str) -> Cluster:
    """A cluster with one topic, whose partitions have these replicas."""
    cluster, controller = a_cluster(logstores)
    assignments = [Assignment(number, each) for number, each in enumerate(replicas)]
    named = {name.replace("_", "."): value for name, value in configs.items()}
    request = controller.request(create(NewTopic(topic, -1, -1, assignments, named)))
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]
    return cluster


def state(cluster: Cluster, number: int = 0, topic: str = "events") -> PartitionRecord:
    image = cluster.controllers[0].core.image
    partition = image.partition(image.topics[topic].topic_id, number)
    assert partition is not None
    return partition


def isr_change(cluster: Cluster, *members: int, number: int = 0, topic: str = "events") -> IsrChange:
    """What the leader asks for, as it knows the partition."""
    topic_id = cluster.controllers[0].core.image.topics[topic].topic_id
    told = cluster.logstores[state(cluster, number, topic).leader].partitions[topic_id, number]
    epochs = [IsrMember(each, cluster.logstores[each].broker_epoch) for each in members]
    return IsrChange(topic_id, number, told.leader_epoch, told.partition_epoch, epochs)


def ask(cluster: Cluster, leader: int, *changes: IsrChange) -> int:
    epoch = cluster.logstores[leader].broker_epoch
    return cluster.controllers[0].request(AlterPartitionRequest(leader, epoch, list(changes)))


def answer(cluster: Cluster, request_id: int) -> AlterPartitionResponse:
    response = cluster.controllers[0].responses[request_id]
    assert isinstance(response, AlterPartitionResponse)
    return response


def shrink(cluster: Cluster, *members: int) -> None:
    """The leader's ISR, by its own word."""
    request = ask(cluster, members[0], isr_change(cluster, *members))
    cluster.settle()
    assert [each.error_code for each in answer(cluster, request).partitions] == [ErrorCode.NONE]


def rejoin(cluster: Cluster) -> None:
    """Every replica is in sync again, by its leader's word."""
    image = cluster.controllers[0].core.image
    for topic in image.topics.values():
        for number, partition in image.partitions(topic.topic_id):
            ask(cluster, partition.leader, isr_change(cluster, *partition.replicas, number=number, topic=topic.topic))
    cluster.settle()


# --- new partitions --------------------------------------------------------------------------------------------------


def test_a_topic_of_three_replicas_is_spread_and_every_replica_is_told_of_it() -> None:
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


# --- ISR changes -----------------------------------------------------------------------------------------------------


def test_an_isr_change_is_answered_when_it_is_committed_and_every_replica_is_told() -> None:
    cluster = with_topic([1, 2, 3])
    cluster.controllers[0].cut_off = True
    request = ask(cluster, 1, isr_change(cluster, 1, 2))
    cluster.settle()
    assert request not in cluster.controllers[0].responses
    cluster.controllers[0].cut_off = False
    cluster.settle()
    (result,) = answer(cluster, request).partitions
    assert (result.leader, result.leader_epoch, result.partition_epoch, result.in_sync_replicas) == (1, 0, 1, [1, 2])
    topic_id = cluster.controllers[0].core.image.topics["events"].topic_id
    assert {each.partitions[topic_id, 0].partition_epoch for each in cluster.logstores.values()} == {1}


def test_a_change_that_is_there_already_succeeds_whatever_its_partition_epoch() -> None:
    cluster = with_topic([1, 2, 3])
    before = isr_change(cluster, 1, 2)
    shrink(cluster, 1, 2)
    count = len(cluster.controllers[0].submitted)
    request = ask(cluster, 1, before)
    assert answer(cluster, request).partitions[0].partition_epoch == 1
    assert len(cluster.controllers[0].submitted) == count


def test_a_repetition_is_not_answered_before_the_first_is_committed() -> None:
    cluster = with_topic([1, 2, 3], [1, 2, 3])
    cluster.controllers[0].cut_off = True
    first = ask(cluster, 1, isr_change(cluster, 1, 2, number=1))
    # Both wait for the Txn in flight, and go into the next one.
    second, third = (ask(cluster, 1, isr_change(cluster, 1, 2)) for _ in range(2))
    cluster.controllers[0].cut_off = False
    controller = cluster.controllers[0]
    while first not in controller.responses:
        controller.step()
    assert second not in controller.responses
    assert third not in controller.responses
    cluster.settle()
    assert [answer(cluster, each).partitions[0].partition_epoch for each in (second, third)] == [1, 1]


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "members", "error"),
    [
        (1, 0, (1, 2), ErrorCode.NOT_CONTROLLER),
        (-1, 0, (1, 2), ErrorCode.FENCED_LEADER_EPOCH),
        (0, 1, (1, 2), ErrorCode.NOT_CONTROLLER),
        (0, -1, (1, 2), ErrorCode.INVALID_UPDATE_VERSION),
        (0, 0, (2, 3), ErrorCode.INVALID_REQUEST),
        (0, 0, (1, 4), ErrorCode.INVALID_REQUEST),
        (0, 0, (1, 1), ErrorCode.INVALID_REQUEST),
        (0, 0, (), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_an_isr_change_is_refused_for(
    leader_epoch: int, partition_epoch: int, members: tuple[int, ...], error: ErrorCode
) -> None:
    cluster = with_topic([1, 2, 3], logstores=4)
    good = isr_change(cluster, *members)
    asked = IsrChange(good.topic_id, 0, leader_epoch, partition_epoch, good.in_sync_replicas)
    request = ask(cluster, 1, asked)
    assert [each.error_code for each in answer(cluster, request).partitions] == [error]
    assert state(cluster).partition_epoch == 0


def test_only_the_leader_is_heard_and_only_of_partitions_that_there_are() -> None:
    cluster = with_topic([1, 2, 3])
    good = isr_change(cluster, 1, 2)
    unknown = IsrChange(b"\x99" * 16, 0, 0, 0, good.in_sync_replicas)
    beyond = IsrChange(good.topic_id, 1, 0, 0, good.in_sync_replicas)
    negative = IsrChange(good.topic_id, -1, 0, 0, good.in_sync_replicas)
    request = ask(cluster, 2, good, unknown, beyond, negative)
    errors = [each.error_code for each in answer(cluster, request).partitions]
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER, *[ErrorCode.UNKNOWN_TOPIC_ID] * 3]


def test_another_registration_of_the_leader_is_not_heard() -> None:
    cluster = with_topic([1, 2, 3])
    for broker_id, broker_epoch in [(1, cluster.logstores[1].broker_epoch - 1), (9, -1)]:
        asked = AlterPartitionRequest(broker_id, broker_epoch, [isr_change(cluster, 1, 2)])
        request = cluster.controllers[0].request(asked)
        assert answer(cluster, request) == AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH)


def test_whoever_is_gone_or_lives_anew_or_stops_is_not_taken_into_an_isr() -> None:
    cluster = with_topic([1, 2, 3, 4], logstores=4)
    shrink(cluster, 1)
    old_life = isr_change(cluster, 1, 2)
    cluster.logstore(2)
    cluster.stop(3)
    cluster.controllers[0].request(ControlledShutdownRequest(4, cluster.logstores[4].broker_epoch))
    cluster.settle()
    for change in (old_life, isr_change(cluster, 1, 3), isr_change(cluster, 1, 4)):
        request = ask(cluster, 1, change)
        assert answer(cluster, request).partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    shrink(cluster, 1, 2)


def test_isr_changes_of_several_leaders_go_into_one_txn() -> None:
    cluster = with_topic([1, 2, 3], [2, 3, 1], [3, 1, 2])
    controller = cluster.controllers[0]
    controller.request(create(NewTopic("other", 1, 1)))
    before = len(controller.submitted)
    requests = [
        ask(cluster, 1, isr_change(cluster, 1, 2)),
        ask(cluster, 2, isr_change(cluster, 2, 3, number=1)),
        ask(cluster, 3, isr_change(cluster, 3, 1, number=2)),
    ]
    cluster.settle()
    assert all(answer(cluster, each).partitions[0].error_code == 0 for each in requests)
    chunks = [txn for txn in controller.submitted[before:] if touches(txn, KEYS.partitions)]
    assert len(chunks) == 1


def touches(txn: Txn, directory: str) -> bool:
    return any(isinstance(each, Put) and each.key.startswith(directory) for each in txn.success)


def test_an_isr_change_does_not_wait_for_a_job_of_many_txns_nor_keeps_it_from_going_on() -> None:
    cluster = with_topic([1, 2, 3])
    controller = cluster.controllers[0]
    many = [NewTopic(f"topic-{number}", 1, 1) for number in range(300)]
    creation = controller.request(create(*many))
    request = ask(cluster, 1, isr_change(cluster, 1, 2))
    steps = 0
    while request not in controller.responses:
        assert controller.step()
        steps += 1
    assert creation not in controller.responses
    assert len(controller.core.image.topics) < 100
    # Leaders that never stop asking take turns with it.
    for members in [(1, 2, 3), (1, 2)] * 20:
        if creation in controller.responses:
            break
        ask(cluster, 1, isr_change(cluster, *members))
        for _ in range(6):
            controller.step()
        cluster._step_logstores()
    cluster.settle()
    assert error_codes(controller, creation) == [ErrorCode.NONE] * 300


def test_an_isr_change_of_more_chunks_than_a_txn_takes_is_answered_once_as_a_whole() -> None:
    cluster, controller = a_cluster()
    controller.request(create(*[NewTopic(f"t{number}", -1, -1, [Assignment(0, [1, 2])]) for number in range(150)]))
    cluster.settle()
    before = len(controller.submitted)
    request = ask(cluster, 1, *[isr_change(cluster, 1, topic=f"t{number}") for number in range(150)])
    cluster.settle()
    assert [each.partition_epoch for each in answer(cluster, request).partitions] == [1] * 150
    assert len(controller.submitted) - before == 2


def test_an_isr_change_that_etcd_does_not_take_in_time_has_timed_out() -> None:
    cluster = with_topic([1, 2, 3])
    cluster.fate = lambda txn: Fate.LOST
    request = ask(cluster, 1, isr_change(cluster, 1, 2))
    cluster.advance(5000, step_ms=500)
    assert answer(cluster, request).error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.fate = lambda txn: Fate.ANSWERED
    cluster.advance(1000)
    assert state(cluster).in_sync_replicas == (1, 2)


def test_an_isr_change_of_a_deposed_controller_is_refused_by_etcd() -> None:
    cluster = with_topic([1, 2, 3])
    first = cluster.controllers[0]
    second = cluster.controller("controller-1")
    cluster.settle()
    first.cut_off = True
    cluster.advance(LEASE_MS - 1000)
    begun = ask(cluster, 1, isr_change(cluster, 1, 2))
    queued = ask(cluster, 1, isr_change(cluster, 1, 3))
    (late,) = first.txns
    cluster.advance(2000)
    assert second.is_active()
    assert not cluster.etcd.txn(late.txn).succeeded
    assert first.responses[begun] == Reject(begun, untouched=False)
    assert first.responses[queued] == Reject(queued, untouched=True)


def test_an_isr_change_that_arrives_late_of_all_is_fenced_by_the_chain_of_writes() -> None:
    """The chunk was changed and changed back meanwhile; only the mod revisions tell."""
    cluster = with_topic([1, 2, 3])
    lost: list[Txn] = []

    def lose(txn: Txn) -> Fate:
        if not lost and touches(txn, KEYS.partitions):
            lost.append(txn)
            return Fate.LOST
        return Fate.ANSWERED

    cluster.fate = lose
    request = ask(cluster, 1, isr_change(cluster, 1, 2))
    cluster.advance(1000)
    assert answer(cluster, request).partitions[0].error_code == ErrorCode.NONE
    shrink(cluster, 1, 2, 3)
    assert not cluster.etcd.txn(lost[0]).succeeded
    cluster.settle()
    assert state(cluster).in_sync_replicas == (1, 2, 3)


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


def test_a_lower_minimum_is_written_after_nobody_is_eligible_any_more() -> None:
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


def test_while_logstores_have_not_heard_of_a_higher_minimum_nobody_becomes_eligible() -> None:
    cluster = with_topic([1, 2])
    controller = cluster.controllers[0]
    cluster.logstores[1].answering = False
    controller.request(alter("events", to_set("min.insync.replicas", "2")))
    cluster.settle()
    shrink(cluster, 1)
    assert state(cluster).eligible_leader_replicas == ()
    cluster.logstores[1].answering = True
    cluster.settle()
    shrink(cluster, 1, 2)
    shrink(cluster, 1)
    assert state(cluster).eligible_leader_replicas == (2,)


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


# --- controlled shutdown ---------------------------------------------------------------------------------------------


def shut_down(cluster: Cluster, node_id: int) -> int:
    asked = ControlledShutdownRequest(node_id, cluster.logstores[node_id].broker_epoch)
    return cluster.controllers[0].request(asked)


def test_a_controlled_shutdown_moves_a_thousand_leaders_in_few_txns() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("events", 3000, 3)))
    cluster.settle()
    led = [number for number in range(3000) if state(cluster, number).leader == 1]
    assert len(led) == 1000
    before = len(controller.submitted)
    request = shut_down(cluster, 1)
    assert request not in controller.responses
    cluster.settle()
    assert controller.responses[request] == ControlledShutdownResponse(ErrorCode.NONE, 0)
    assert len(controller.submitted) - before <= 2
    assert all(state(cluster, number).leader in (2, 3) for number in led)
    assert all(1 not in state(cluster, number).in_sync_replicas for number in led)


def test_a_logstore_that_stopped_is_a_candidate_again_when_it_is_back() -> None:
    cluster = with_topic([1, 2])
    shut_down(cluster, 1)
    cluster.settle()
    cluster.logstore(1)
    cluster.settle()
    shrink(cluster, 2, 1)
    cluster.stop(2)
    cluster.settle()
    assert state(cluster).leader == 1


def test_a_shutdown_of_another_registration_is_refused() -> None:
    cluster = with_topic([1, 2])
    asked = ControlledShutdownRequest(1, cluster.logstores[1].broker_epoch - 1)
    request = cluster.controllers[0].request(asked)
    assert cluster.controllers[0].responses[request] == ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)
    cluster.settle()
    assert state(cluster).leader == 1


def test_a_shutdown_whose_logstore_is_gone_meanwhile_is_refused() -> None:
    cluster = with_topic([1, 2])
    cluster.fate = lambda txn: Fate.LOST
    request = shut_down(cluster, 1)
    cluster.stop(1)
    cluster.settle()
    assert cluster.controllers[0].responses[request] == ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)


def test_a_shutdown_that_etcd_does_not_take_in_time_says_what_remains() -> None:
    cluster = with_topic([1, 2])
    cluster.fate = lambda txn: Fate.LOST
    request = shut_down(cluster, 1)
    cluster.advance(10_000, step_ms=500)
    assert cluster.controllers[0].responses[request] == ControlledShutdownResponse(ErrorCode.REQUEST_TIMED_OUT, 1)
