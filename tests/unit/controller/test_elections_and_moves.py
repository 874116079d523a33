"""ElectLeaders, the balance of leaders, and reassignments: Kafka's rules, a test each."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import (
    NO_LEADER,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    Assignment,
    ElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    NewTopic,
    Reassignment,
    TopicPartition,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.settings import ElectionSettings
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import Cluster, create
from tests.unit.controller.replicated import a_cluster, rejoin, shrink, state, with_topic

PREFERRED, UNCLEAN = 0, 1


def elect(
    cluster: Cluster, *partitions: tuple[str, int], kind: int = PREFERRED, timeout_ms: int = 10_000
) -> list[ElectionResult]:
    """Without partitions: all."""
    controller = cluster.controllers[0]
    asked = [TopicPartition(*each) for each in partitions]
    request = controller.request(ElectLeadersRequest(kind, not partitions, asked, timeout_ms))
    cluster.settle()
    cluster.advance(timeout_ms if request not in controller.responses else 0)
    response = controller.responses[request]
    assert isinstance(response, ElectLeadersResponse)
    return response.results


def elected(cluster: Cluster, *partitions: tuple[str, int], kind: int = PREFERRED) -> list[int]:
    return [result.error_code for result in elect(cluster, *partitions, kind=kind)]


def led_by_second(*replicas: list[int]) -> Cluster:
    """The preferred leaders were away, and are in sync again."""
    cluster = with_topic(*replicas)
    for node_id in dict.fromkeys(each[0] for each in replicas):
        cluster.logstore(node_id)
        cluster.settle()
        rejoin(cluster)
    return cluster


def test_the_preferred_leader_leads_again_when_it_is_asked_for() -> None:
    cluster = led_by_second([1, 2, 3])
    assert state(cluster).leader == 2
    assert elected(cluster, ("events", 0)) == [ErrorCode.NONE]
    assert (state(cluster).leader, state(cluster).leader_epoch) == (1, 2)
    assert elect(cluster, ("events", 0)) == [
        ElectionResult("events", 0, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message)
    ]


def test_an_election_is_answered_when_the_new_leader_leads() -> None:
    cluster = led_by_second([1, 2, 3])
    cluster.logstores[1].answering = False
    (result,) = elect(cluster, ("events", 0), timeout_ms=500)
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert state(cluster).leader == 1


def test_of_all_partitions_those_that_need_no_election_are_not_returned() -> None:
    cluster = led_by_second([1, 2, 3], [2, 3, 1], [3, 1, 2])
    expected = [number for number in range(3) if state(cluster, number).leader != state(cluster, number).replicas[0]]
    assert expected
    assert [(each.partition, each.error_code) for each in elect(cluster)] == [(each, 0) for each in expected]
    assert elect(cluster) == []


def test_what_is_not_there_or_not_in_sync_is_not_elected() -> None:
    cluster = with_topic([1, 2, 3])
    cluster.stop(1)
    cluster.settle()
    results = elect(cluster, ("events", 0), ("events", 1), ("events", -1), ("nothing", 0))
    assert [(each.error_code, each.error_message) for each in results] == [
        (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE.message),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as events-1"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as events--1"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nothing"),
    ]


def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    cluster = with_topic([1, 2], [2, 3])
    shrink(cluster, 1)
    cluster.stop(1)
    cluster.settle()
    assert state(cluster).leader == NO_LEADER
    codes = elected(cluster, ("events", 0), ("events", 1), kind=UNCLEAN)
    assert codes == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]
    assert (state(cluster).leader, state(cluster).leader_recovering) == (2, True)


def test_an_unclean_election_needs_a_live_replica() -> None:
    cluster = with_topic([1, 2])
    cluster.stop(1)
    cluster.settle()
    cluster.stop(2)
    cluster.settle()
    assert elected(cluster, ("events", 0), kind=UNCLEAN) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_elections_of_more_chunks_than_a_txn_takes_are_one_request() -> None:
    cluster, controller = a_cluster()
    controller.request(create(*[NewTopic(f"t{number}", -1, -1, [Assignment(0, [1, 2])]) for number in range(150)]))
    cluster.settle()
    cluster.logstore(1)
    cluster.settle()
    rejoin(cluster)
    before = len(controller.submitted)
    assert [each.error_code for each in elect(cluster)] == [ErrorCode.NONE] * 150
    assert len(controller.submitted) - before == 2
    assert {state(cluster, 0, name).leader for name in controller.core.image.topics} == {1}


def test_an_election_that_was_not_begun_in_time_changes_nothing() -> None:
    cluster = led_by_second([1, 2, 3])
    controller = cluster.controllers[0]
    cluster.fate = lambda txn: Fate.LOST
    controller.request(create(NewTopic("other", 1, 1)))
    request = controller.request(ElectLeadersRequest(PREFERRED, True, [], 100))
    cluster.advance(100)
    cluster.fate = lambda txn: Fate.ANSWERED
    cluster.advance(1000)
    response = controller.responses[request]
    assert isinstance(response, ElectLeadersResponse)
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert state(cluster).leader == 2


# --- balance ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("percentage", "leader"), [(49, 1), (50, 2)])
def test_preferred_leaders_come_back_where_a_broker_misses_too_many(percentage: int, leader: int) -> None:
    settings = ElectionSettings(
        leader_imbalance_check_interval_ms=60_000, leader_imbalance_per_broker_percentage=percentage
    )
    cluster, controller = a_cluster(settings=settings)
    controller.request(create(NewTopic("events", 6, 3)))
    cluster.settle()
    cluster.logstore(1)
    cluster.settle()
    rejoin(cluster)
    first, second = [number for number in range(6) if state(cluster, number).replicas[0] == 1]
    assert {state(cluster, number).leader for number in (first, second)}.isdisjoint({1})
    elect(cluster, ("events", first))
    before = state(cluster, second).leader
    cluster.advance(70_000, step_ms=1000)
    assert state(cluster, second).leader == (1 if leader == 1 else before)


def test_nothing_is_balanced_where_that_is_switched_off() -> None:
    settings = ElectionSettings(auto_leader_rebalance_enable=False, leader_imbalance_check_interval_ms=60_000)
    cluster, controller = a_cluster(settings=settings)
    controller.request(create(NewTopic("events", 3, 3)))
    cluster.settle()
    cluster.logstore(1)
    cluster.settle()
    rejoin(cluster)
    leaders = [state(cluster, number).leader for number in range(3)]
    cluster.advance(130_000, step_ms=1000)
    assert [state(cluster, number).leader for number in range(3)] == leaders


# --- reassignments ---------------------------------------------------------------------------------------------------


def move(
    cluster: Cluster, replicas: list[int], number: int = 0, topic: str = "events", **asked: bool
) -> tuple[int, str]:
    controller = cluster.controllers[0]
    request = controller.request(AlterReassignmentsRequest([Reassignment(topic, number, replicas)], 10_000, **asked))
    cluster.settle()
    response = controller.responses[request]
    assert isinstance(response, AlterReassignmentsResponse)
    (result,) = response.results
    return result.error_code, result.error_message


def test_a_move_tells_the_new_replicas_and_takes_the_copies_of_the_old() -> None:
    cluster = with_topic([1, 2], logstores=4)
    topic_id = cluster.controllers[0].core.image.topics["events"].topic_id
    assert move(cluster, [3, 4]) == (ErrorCode.NONE, "")
    moving = state(cluster)
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert all((topic_id, 0) in cluster.logstores[each].partitions for each in (1, 2, 3, 4))
    shrink(cluster, 1, 2, 3, 4)
    done = state(cluster)
    assert (done.replicas, done.leader, done.in_sync_replicas) == ((3, 4), 3, (3, 4))
    assert (done.adding_replicas, done.removing_replicas) == ((), ())
    for node_id in (1, 2):
        assert (topic_id, 0) not in cluster.logstores[node_id].partitions
        assert (topic_id, 0) in cluster.logstores[node_id].deleted


def test_a_replica_that_is_away_when_it_is_removed_finds_its_copy_to_be_a_stray() -> None:
    cluster = with_topic([1, 2], logstores=3)
    cluster.stop(2)
    cluster.settle()
    assert move(cluster, [1, 3]) == (ErrorCode.NONE, "")
    shrink(cluster, 1, 3)
    back = cluster.logstore(2)
    cluster.settle()
    assert back.partitions == {}
    assert back.requests[0].leader_and_isr is not None
    assert back.requests[0].leader_and_isr.full


def test_a_cancelled_move_takes_the_copies_of_the_new() -> None:
    cluster = with_topic([1, 2], logstores=3)
    topic_id = cluster.controllers[0].core.image.topics["events"].topic_id
    move(cluster, [3, 1])
    assert move(cluster, []) == (ErrorCode.NONE, "")
    assert (state(cluster).replicas, state(cluster).adding_replicas) == ((1, 2), ())
    assert (topic_id, 0) in cluster.logstores[3].deleted


@pytest.mark.parametrize(
    ("replicas", "error", "message"),
    [
        ([], ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.message),
        (
            [1, 9],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            [1, 1],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ],
)
def test_what_a_move_is_refused_for(replicas: list[int], error: ErrorCode, message: str) -> None:
    assert move(with_topic([1, 2]), replicas) == (error, message)


def test_moves_of_what_is_not_there_are_refused() -> None:
    cluster = with_topic([1, 2])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(cluster, [1], topic="nothing") == (unknown, "Unable to find a topic named nothing.")
    assert move(cluster, [1], number=1) == (unknown, "Unable to find partition events-1.")


def test_another_replication_factor_has_to_be_allowed() -> None:
    cluster = with_topic([1, 2])
    code, message = move(cluster, [1, 2, 3], allow_replication_factor_change=False)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert message.startswith("The replication factor is changed from 2 to 3")
    assert move(cluster, [2, 3], allow_replication_factor_change=False) == (ErrorCode.NONE, "")


def test_a_move_that_only_its_targets_can_lead_is_not_taken_back() -> None:
    cluster = with_topic([1, 2], logstores=4)
    move(cluster, [3, 4])
    shrink(cluster, 1, 3)
    cluster.stop(1)
    cluster.settle()
    assert state(cluster).leader == 3
    assert move(cluster, []) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Unable to revert partition assignment for events-0 because it would require an unclean leader election.",
    )


def test_a_partition_that_is_asked_for_twice_is_refused() -> None:
    cluster = with_topic([1, 2])
    twice = [Reassignment("events", 0, [1]), Reassignment("events", 0, [2])]
    request = cluster.controllers[0].request(AlterReassignmentsRequest(twice, 1000))
    response = cluster.controllers[0].responses[request]
    assert isinstance(response, AlterReassignmentsResponse)
    assert [each.error_code for each in response.results] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_thousand_moves_are_few_txns() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("events", 1000, 2)))
    cluster.settle()
    before = len(controller.submitted)
    moves = [Reassignment("events", number, [1, 2, 3]) for number in range(1000)]
    controller.request(AlterReassignmentsRequest(moves, 10_000))
    cluster.settle()
    assert len(controller.submitted) - before <= 2
    assert all(set(state(cluster, number).replicas) == {1, 2, 3} for number in range(1000))
