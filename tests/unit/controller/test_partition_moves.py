"""What operators' requests for elections and moves become, and which of them are refused before anything is done."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest

from barnabas.cluster.messages import (
    ALL_BROKERS,
    NO_LEADER,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterReassignmentsRequest,
    ConfigChange,
    Reassignment,
    TopicPartition,
)
from barnabas_controller.core.operations.partition_moves import (
    FOLLOWERS,
    LEADERS,
    MOVES_MAX,
    RATES,
    NamedPartitions,
    PartitionMoves,
)
from barnabas_controller.core.state.operator_requests import Outcome, RequestRefused
from barnabas_controller.shell.operations.calls import refusal_of
from tests.unit.controller.cluster import BROKER, DELETE, SET, TOPIC, Cluster, alter, to_set
from tests.unit.controller.replicated import state, with_topic

PREFERRED, UNCLEAN = 0, 1


def moves_of(cluster: Cluster) -> PartitionMoves:
    return PartitionMoves(cluster.controllers[0].core.image)


def move(cluster: Cluster, number: int, replicas: list[int], topic: str = "events") -> None:
    """Have the controller begin a move. It never ends, since the new replica does not catch up."""
    cluster.controllers[0].request(AlterReassignmentsRequest([Reassignment(topic, number, replicas)], 10_000))
    cluster.settle()
    assert state(cluster, number, topic).adding_replicas


def refusal(ask: Callable[[], object]) -> tuple[Outcome, str]:
    with pytest.raises(RequestRefused) as refused:
        ask()
    assert "\n" not in refused.value.message
    return refused.value.outcome, refused.value.message


# --- elections --------------------------------------------------------------------------------------------------------


def test_an_election_of_preferred_leaders_may_name_no_partition() -> None:
    assert moves_of(with_topic([1, 2])).electing(PREFERRED, []) == []


def test_a_topic_without_numbers_means_all_of_its_partitions() -> None:
    moves = moves_of(with_topic([1, 2], [2, 1], [1, 2]))
    asked = moves.electing(UNCLEAN, [("events", [2]), ("events", [])])
    assert asked == [TopicPartition("events", number) for number in (2, 0, 1, 2)]


def test_an_unclean_election_has_to_name_its_partitions() -> None:
    moves = moves_of(with_topic([1, 2]))
    expected = Outcome.INVALID, "an unclean election may lose records: name the partitions"
    assert refusal(lambda: moves.electing(UNCLEAN, [])) == expected


def test_an_unknown_kind_of_election_is_refused_with_those_that_there_are() -> None:
    moves = moves_of(with_topic([1, 2]))
    expected = Outcome.INVALID, "there is no kind 7 of elections: PREFERRED, UNCLEAN"
    assert refusal(lambda: moves.electing(7, [("events", [0])])) == expected


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (("other", []), "there is no topic 'other'"),
        (("other", [0]), "there is no topic 'other'"),
        (("events", [0, 2]), "there is no partition events-2: it has 2, from 0"),
        (("events", [-1]), "there is no partition events--1: it has 2, from 0"),
    ],
)
def test_partitions_that_do_not_exist_are_not_found(named: NamedPartitions, message: str) -> None:
    moves = moves_of(with_topic([1, 2], [2, 1]))
    assert refusal(lambda: moves.electing(PREFERRED, [named])) == (Outcome.NOT_FOUND, message)
    assert refusal(lambda: moves.cancellations([named])) == (Outcome.NOT_FOUND, message)


# --- moves and their throttles ----------------------------------------------------------------------------------------

ONE = Reassignment("events", 0, [2, 3])


@pytest.mark.parametrize(
    ("asked", "rate", "outcome", "message"),
    [
        ([], 0, Outcome.INVALID, "nothing to move: moves is empty"),
        (
            [ONE] * (MOVES_MAX + 1),
            0,
            Outcome.INVALID,
            "10001 moves: at most 10000 can be requested at a time",
        ),
        ([ONE], -1, Outcome.INVALID, "throttle_bytes_per_second is below 0: a rate in bytes, or 0 for none"),
        ([ONE, Reassignment("other", 0, [1])], 0, Outcome.NOT_FOUND, "there is no topic 'other'"),
        ([Reassignment("events", 1, [])], 0, Outcome.NOT_FOUND, "there is no partition events-1: it has 1, from 0"),
        (
            [Reassignment("events", 0, [])],
            0,
            Outcome.INVALID,
            "no replicas for events-0; CancelReassignments cancels moves",
        ),
    ],
)
def test_impossible_moves_are_refused(asked: list[Reassignment], rate: int, outcome: Outcome, message: str) -> None:
    moves = moves_of(with_topic([1, 2]))
    assert refusal(lambda: moves.check(asked, rate)) == (outcome, message)


def test_as_many_moves_as_allowed_are_let_through() -> None:
    moves_of(with_topic([1, 2])).check([ONE] * MOVES_MAX, 0)


def test_a_throttle_names_existing_replicas_as_senders_and_new_ones_as_receivers() -> None:
    moves = moves_of(with_topic([1, 2], [2, 3]))
    asked = [Reassignment("events", 0, [2, 3]), Reassignment("events", 1, [1, 3, 2])]
    brokers, topic = moves.throttles(asked, 5_000)
    rates = [ConfigChange(key, SET, "5000") for key in sorted(RATES)]
    assert brokers == AlterConfigsResource(BROKER, "", False, rates)
    changes = [ConfigChange(FOLLOWERS, SET, "0:3,1:1"), ConfigChange(LEADERS, SET, "0:1,0:2,1:2,1:3")]
    assert topic == AlterConfigsResource(TOPIC, "events", False, changes)


def test_moves_without_a_rate_are_not_throttled() -> None:
    assert moves_of(with_topic([1, 2])).throttles([ONE], 0) == []


def test_a_throttle_is_what_the_controller_itself_accepts() -> None:
    cluster = with_topic([1, 2])
    controller = cluster.controllers[0]
    controller.request(AlterConfigsRequest(moves_of(cluster).throttles([ONE], 5_000), 10_000))
    cluster.settle()
    image = controller.core.image
    assert image.topics["events"].configs == {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"}
    assert image.broker_configs[ALL_BROKERS].configs == dict.fromkeys(RATES, "5000")


# --- what moves, cancelling it, and the end of throttles --------------------------------------------------------------


def test_partitions_that_move_are_listed_in_order() -> None:
    cluster = with_topic([1, 2], [1, 2], [2, 1])
    moves = moves_of(cluster)
    assert list(moves.moving()) == []
    move(cluster, 2, [2, 3])
    move(cluster, 0, [1, 3])
    assert [each.position for each in moves.moving()] == [("events", 0), ("events", 2)]
    assert [each.position for each in moves.moving("events")] == [("events", 0), ("events", 2)]


def test_the_progress_of_a_move_is_known_to_the_leader_and_the_new_replicas() -> None:
    cluster = with_topic([1, 2])
    move(cluster, 0, [1, 3])
    (moving,) = moves_of(cluster).moving()
    assert moving.nodes_with_progress == (1, 3)
    for node_id in (1, 2):
        cluster.etcd.revoke(cluster.logstores[node_id].lease)
    cluster.settle()
    (moving,) = moves_of(cluster).moving()
    assert moving.record.leader == NO_LEADER
    assert moving.nodes_with_progress == (3,)


def test_cancelling_nothing_by_name_cancels_every_move() -> None:
    cluster = with_topic([1, 2], [1, 2], [2, 1])
    moves = moves_of(cluster)
    assert moves.cancellations([]) == []
    move(cluster, 1, [1, 3])
    assert moves.cancellations([]) == [Reassignment("events", 1, [])]
    assert moves.cancellations([("events", [2])]) == [Reassignment("events", 2, [])], "the controller refuses it"


def test_throttles_are_removed_only_when_nothing_moves() -> None:
    cluster = with_topic([1, 2])
    move(cluster, 0, [1, 3])
    expected = Outcome.REFUSED, "1 partitions still move: wait until they are complete, or cancel them"
    assert refusal(moves_of(cluster).throttle_removals) == expected


def test_all_throttles_are_removed_and_no_other_key() -> None:
    cluster = with_topic([1, 2], retention_ms="1000")
    controller = cluster.controllers[0]
    moves = moves_of(cluster)
    assert moves.throttle_removals() == []
    controller.request(alter("events", to_set(LEADERS, "0:1")))
    controller.request(alter("", to_set(RATES[1], "5"), to_set("log.retention.ms", "2000"), resource_type=BROKER))
    controller.request(alter("2", to_set(RATES[0], "5"), resource_type=BROKER))
    cluster.settle()
    assert moves.throttle_removals() == [
        AlterConfigsResource(BROKER, "", False, [ConfigChange(RATES[1], DELETE, "")]),
        AlterConfigsResource(BROKER, "2", False, [ConfigChange(RATES[0], DELETE, "")]),
        AlterConfigsResource(TOPIC, "events", False, [ConfigChange(LEADERS, DELETE, "")]),
    ]


# --- what the shell makes of a refusal --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.INVALID, grpc.StatusCode.INVALID_ARGUMENT),
        (Outcome.NOT_FOUND, grpc.StatusCode.NOT_FOUND),
        (Outcome.REFUSED, grpc.StatusCode.FAILED_PRECONDITION),
        (Outcome.TIMED_OUT, grpc.StatusCode.DEADLINE_EXCEEDED),
    ],
)
def test_each_outcome_is_a_status(outcome: Outcome, status: grpc.StatusCode) -> None:
    assert refusal_of(outcome, "why").status is status
