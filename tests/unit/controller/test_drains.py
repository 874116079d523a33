"""Logstores taken out of service: refused where something would break, continued by any active controller."""

from __future__ import annotations

from barnabas.cluster.keys import Role
from barnabas.cluster.messages import (
    NO_LEADER,
    AlterPartitionRequest,
    AlterReassignmentsRequest,
    IsrChange,
    IsrMember,
    NewTopic,
    Reassignment,
)
from barnabas.ports.etcd import Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.operator_requests import (
    DrainNode,
    OperatorResponse,
    Outcome,
    PauseBalance,
    RemoveNode,
    ReturnNode,
)
from barnabas_controller.core.state.settings import ElectionSettings
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import KEYS, LEASE_MS, Cluster, ControllerNode, create

TIMEOUT_MS = 10_000


def with_logstores(count: int, settings: ElectionSettings | None = None) -> tuple[Cluster, ControllerNode]:
    cluster = Cluster()
    controller = cluster.controller(settings=settings)
    for node_id in range(1, count + 1):
        cluster.logstore(node_id)
    cluster.settle()
    return cluster, controller


def ask(
    cluster: Cluster, controller: ControllerNode, request: DrainNode | ReturnNode | RemoveNode | PauseBalance
) -> OperatorResponse:
    request_id = controller.request(request)
    cluster.settle()
    response = controller.responses[request_id]
    assert isinstance(response, OperatorResponse)
    return response


def drain(node_id: int, *, move_replicas: bool = False, validate_only: bool = False) -> DrainNode:
    return DrainNode(node_id, move_replicas, TIMEOUT_MS, validate_only)


def give_back(node_id: int, *, let_moves_finish: bool = False) -> ReturnNode:
    return ReturnNode(node_id, let_moves_finish, TIMEOUT_MS)


def leaders(controller: ControllerNode, topic: str = "events") -> list[int]:
    image = controller.core.image
    return [partition.leader for _, partition in image.partitions(image.topics[topic].topic_id)]


def replicas(controller: ControllerNode, topic: str = "events") -> list[tuple[int, ...]]:
    image = controller.core.image
    return [partition.replicas for _, partition in image.partitions(image.topics[topic].topic_id)]


def make(cluster: Cluster, controller: ControllerNode, *topics: NewTopic) -> None:
    controller.request(create(*topics))
    cluster.settle()


def in_sync(cluster: Cluster, controller: ControllerNode, topic: str, *node_ids: int) -> None:
    """Every leader's word: of its replicas these are in sync, and no others."""
    image = controller.core.image
    topic_id = image.topics[topic].topic_id
    for number, partition in list(image.partitions(topic_id)):
        if partition.leader == NO_LEADER:
            continue
        members = [
            IsrMember(each, cluster.logstores[each].broker_epoch) for each in partition.replicas if each in node_ids
        ]
        change = IsrChange(topic_id, number, partition.leader_epoch, partition.partition_epoch, members)
        broker_epoch = cluster.logstores[partition.leader].broker_epoch
        controller.request(AlterPartitionRequest(partition.leader, broker_epoch, [change]))
    cluster.settle()


def test_a_drained_logstore_leads_nothing_stays_in_sync_and_gets_its_leaders_back() -> None:
    cluster, controller = with_logstores(3)
    make(cluster, controller, NewTopic("events", 6, 3))
    before = leaders(controller)
    assert before.count(2) == 2
    assert ask(cluster, controller, drain(2)).outcome is Outcome.DONE
    assert 2 not in leaders(controller)
    image = controller.core.image
    topic_id = image.topics["events"].topic_id
    assert all(2 in partition.in_sync_replicas for _, partition in image.partitions(topic_id))
    progress = controller.core.drains.progress(2)
    assert (progress.leaders, progress.replicas, progress.blocked) == (0, 6, [])
    assert ask(cluster, controller, give_back(2)).outcome is Outcome.DONE
    assert leaders(controller) == before
    assert image.drains == {}


def test_a_drain_outlives_the_controller_that_began_it() -> None:
    cluster, controller = with_logstores(3)
    make(cluster, controller, NewTopic("events", 3, 3))
    ask(cluster, controller, drain(2))
    controller.cut_off = True
    successor = cluster.controller("controller-1")
    cluster.advance(LEASE_MS + 1000)
    assert successor.is_active()
    cluster.stop(1)
    cluster.stop(3)
    cluster.settle()
    assert set(leaders(successor)) == {2}, "rather a drained leader than none"
    cluster.logstore(3)
    cluster.settle()
    in_sync(cluster, successor, "events", 2, 3)
    assert set(leaders(successor)) == {3}, "and no longer than it has to be"


def test_a_drain_that_would_leave_a_partition_without_a_leader_names_it_and_does_nothing() -> None:
    cluster, controller = with_logstores(2)
    make(cluster, controller, NewTopic("alone", 2, 1))
    refused = ask(cluster, controller, drain(1))
    assert refused.outcome is Outcome.REFUSED
    assert "logstore 1 can't be drained: alone-" in refused.message
    assert "would have no leader" in refused.message
    assert "\n" not in refused.message
    assert controller.core.image.drains == {}


def test_a_drain_that_would_break_the_minimum_of_in_sync_replicas_is_refused() -> None:
    cluster, controller = with_logstores(3)
    make(cluster, controller, NewTopic("events", 1, 3, configs={"min.insync.replicas": "2"}))
    leader = leaders(controller)[0]
    follower, other = [each for each in (1, 2, 3) if each != leader]
    in_sync(cluster, controller, "events", leader, follower)
    refused = ask(cluster, controller, drain(leader))
    assert refused.outcome is Outcome.REFUSED
    assert "events-0 would be below min.insync.replicas" in refused.message
    assert ask(cluster, controller, drain(other)).outcome is Outcome.DONE, "it is not in sync anyway"
    assert ask(cluster, controller, drain(follower, validate_only=True)).outcome is Outcome.REFUSED


def test_two_drained_logstores_count_together() -> None:
    cluster, controller = with_logstores(3)
    make(cluster, controller, NewTopic("events", 3, 3, configs={"min.insync.replicas": "2"}))
    assert ask(cluster, controller, drain(1)).outcome is Outcome.DONE
    assert ask(cluster, controller, drain(2)).outcome is Outcome.REFUSED


def test_many_partitions_are_named_in_one_bounded_line() -> None:
    cluster, controller = with_logstores(1)
    make(cluster, controller, NewTopic("events", 200, 1))
    refused = ask(cluster, controller, drain(1))
    assert "and 190 more" in refused.message
    assert len(refused.message) < 500


def test_replicas_go_to_others_and_a_logstore_that_is_gone_can_be_removed() -> None:
    cluster, controller = with_logstores(4)
    make(cluster, controller, NewTopic("events", 4, 3), NewTopic("alone", 4, 1))
    refused = ask(cluster, controller, RemoveNode(4, TIMEOUT_MS))
    assert (refused.outcome, "is alive" in refused.message) == (Outcome.REFUSED, True)
    assert ask(cluster, controller, drain(4, move_replicas=True)).outcome is Outcome.DONE
    in_sync(cluster, controller, "events", 1, 2, 3, 4)
    in_sync(cluster, controller, "alone", 1, 2, 3, 4)
    everything = [*replicas(controller), *replicas(controller, "alone")]
    assert not any(4 in each for each in everything)
    assert {len(each) for each in replicas(controller)} == {3}
    assert controller.core.drains.progress(4).replicas == 0
    cluster.stop(4)
    cluster.settle()
    assert ask(cluster, controller, RemoveNode(4, TIMEOUT_MS)).outcome is Outcome.DONE
    image = controller.core.image
    assert image.known_node_ids() == {1, 2, 3}
    assert (Role.LOGSTORE, "4") not in image.members
    assert image.drains == {}
    assert ask(cluster, controller, RemoveNode(4, TIMEOUT_MS)).outcome is Outcome.NOT_FOUND


def test_a_dead_logstore_with_the_last_replica_is_not_removed() -> None:
    cluster, controller = with_logstores(2)
    make(cluster, controller, NewTopic("alone", 2, 1))
    cluster.stop(2)
    cluster.settle()
    refused = ask(cluster, controller, RemoveNode(2, TIMEOUT_MS))
    assert (refused.outcome, "alone-" in refused.message) == (Outcome.REFUSED, True)
    refused = ask(cluster, controller, drain(2, move_replicas=True))
    assert (refused.outcome, "no live in-sync replica to copy from" in refused.message) == (Outcome.REFUSED, True)


def test_replicas_without_a_place_are_named() -> None:
    cluster, controller = with_logstores(3)
    make(cluster, controller, NewTopic("events", 1, 3))
    refused = ask(cluster, controller, drain(1, move_replicas=True))
    assert (refused.outcome, "events-0 would have no place" in refused.message) == (Outcome.REFUSED, True)


def test_a_return_calls_off_the_moves_that_are_under_way() -> None:
    cluster, controller = with_logstores(4)
    make(cluster, controller, NewTopic("events", 4, 3))
    before = replicas(controller)
    ask(cluster, controller, drain(4, move_replicas=True))
    assert controller.core.drains.progress(4).moving > 0
    ask(cluster, controller, give_back(4))
    assert replicas(controller) == before


def test_a_return_that_a_controller_does_not_finish_can_be_asked_for_again() -> None:
    cluster, controller = with_logstores(4)
    make(cluster, controller, NewTopic("events", 4, 3))
    before = replicas(controller)
    ask(cluster, controller, drain(4, move_replicas=True))

    def last_write(txn: Txn) -> Fate:
        controller.cut_off = True
        return Fate.ANSWERED

    cluster.fate = last_write
    controller.request(give_back(4))
    cluster.settle()
    assert controller.cut_off
    cluster.fate = lambda txn: Fate.ANSWERED
    successor = cluster.controller("controller-1")
    cluster.advance(2 * LEASE_MS)
    assert ask(cluster, successor, give_back(4)).outcome is Outcome.DONE
    assert replicas(successor) == before


def test_moves_go_on_after_a_return_where_that_is_asked_for() -> None:
    cluster, controller = with_logstores(4)
    make(cluster, controller, NewTopic("events", 4, 3))
    ask(cluster, controller, drain(4, move_replicas=True))
    moving = controller.core.drains.progress(4).moving
    ask(cluster, controller, give_back(4, let_moves_finish=True))
    assert controller.core.drains.progress(4).moving == moving > 0


def test_nothing_new_comes_to_a_drained_logstore() -> None:
    cluster, controller = with_logstores(3)
    make(cluster, controller, NewTopic("before", 1, 1))
    (home,) = leaders(controller, "before")
    away = next(each for each in (1, 2, 3) if each != home)
    ask(cluster, controller, drain(away))
    make(cluster, controller, NewTopic("after", 6, 2))
    assert not any(away in each for each in replicas(controller, "after"))
    request_id = controller.request(create(NewTopic("too-wide", 1, 3)))
    cluster.settle()
    (result,) = controller.responses[request_id].results  # type: ignore[union-attr]
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    moves = AlterReassignmentsRequest([Reassignment("before", 0, [away])], TIMEOUT_MS)
    request_id = controller.request(moves)
    cluster.settle()
    (moved,) = controller.responses[request_id].results  # type: ignore[union-attr]
    assert moved.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "is drained" in moved.error_message


def test_the_balance_gives_a_drained_logstore_no_leaders_and_stands_still_while_paused() -> None:
    interval_ms = 10_000
    cluster, controller = with_logstores(3, ElectionSettings(leader_imbalance_check_interval_ms=interval_ms))
    make(cluster, controller, NewTopic("events", 6, 3))
    before = leaders(controller)
    ask(cluster, controller, drain(2))
    cluster.advance(3 * interval_ms)
    assert 2 not in leaders(controller)
    ask(cluster, controller, give_back(2))
    assert ask(cluster, controller, PauseBalance(True, TIMEOUT_MS)).outcome is Outcome.DONE
    assert controller.core.image.mod_revision(KEYS.operations.balance)
    cluster.stop(1)
    cluster.settle()
    cluster.logstore(1)
    cluster.settle()
    in_sync(cluster, controller, "events", 1, 2, 3)
    cluster.advance(3 * interval_ms)
    assert 1 not in leaders(controller), "no operator has asked for it"
    ask(cluster, controller, PauseBalance(False, TIMEOUT_MS))
    assert leaders(controller) == before, "at once"


def test_unknown_logstores_are_distinguished_from_those_that_are_not_drained() -> None:
    cluster, controller = with_logstores(2)
    assert ask(cluster, controller, drain(7)).message == "there is no logstore 7; there are 1, 2"
    assert ask(cluster, controller, give_back(7)).outcome is Outcome.NOT_FOUND
    assert ask(cluster, controller, give_back(1)).message == "logstore 1 is not drained: nothing to return"
