"""CreateTopics: Kafka's rules, a test each."""

from __future__ import annotations

from collections import Counter

import pytest

from barnabas.cluster.internal_topics import OFFSETS_TOPIC
from barnabas.cluster.messages import Assignment, CreateTopicResult, NewTopic
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas_controller.core.state.partition_changes import Liveness
from barnabas_controller.core.topics.internal_topics import OffsetsTopic
from barnabas_controller.core.topics.topic_creation import NO_TOPIC_ID, TopicCreation, TopicDefaults, create_topics
from tests.unit.controller.cluster import Cluster, ControllerNode, create, created

ILLEGAL = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


def a_controller(logstores: int = 3) -> ControllerNode:
    cluster = Cluster()
    controller = cluster.controller()
    for node_id in range(1, logstores + 1):
        cluster.logstore(node_id)
    cluster.settle()
    return controller


def finished(steps: Steps[TopicCreation]) -> TopicCreation:
    """What they come to when all are done."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            creation: TopicCreation = end.value
            return creation


def decide(controller: ControllerNode, *topics: NewTopic, defaults: TopicDefaults | None = None) -> CreateTopicResult:
    """The result of the last of the topics."""
    image, new_topic_id = controller.core.image, controller.cluster.new_topic_id
    live = Liveness({node_id: each.epoch for node_id, each in image.logstores.items()})
    creation = finished(create_topics(image, create(*topics), defaults or TopicDefaults(), new_topic_id, live))
    return creation.results[-1]


def by_hand(*broker_ids: list[int], topic: str = "events") -> NewTopic:
    return NewTopic(topic, -1, -1, [Assignment(partition, each) for partition, each in enumerate(broker_ids)])


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        ("a" * 250, f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249"),
        (
            "a/b",
            f"Topic name is invalid: 'a/b' {ILLEGAL}",
        ),
        (
            "größe",
            f"Topic name is invalid: 'größe' {ILLEGAL}",
        ),
    ],
)
def test_illegal_names_are_refused(topic: str, message: str) -> None:
    result = decide(a_controller(), NewTopic(topic, 1, 1))
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_TOPIC_EXCEPTION, message)


@pytest.mark.parametrize("topic", ["a" * 249, "...", "__consumer_offsets", "A-1_b.c"])
def test_legal_names_are_taken(topic: str) -> None:
    assert decide(a_controller(), NewTopic(topic, 1, 1)).error_code == ErrorCode.NONE


def test_a_name_that_exists_is_refused() -> None:
    controller = a_controller()
    controller.request(create(NewTopic("events", 1, 1)))
    controller.cluster.settle()
    result = decide(controller, NewTopic("events", 1, 1))
    assert (result.error_code, result.error_message) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 'events' already exists.",
    )


def test_a_name_that_collides_in_metrics_is_refused() -> None:
    controller = a_controller()
    controller.request(create(NewTopic("a.b_c", 1, 1)))
    controller.cluster.settle()
    result = decide(controller, NewTopic("a_b.c", 1, 1))
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'a_b.c' collides with existing topic: a.b_c",
    )
    assert decide(controller, NewTopic("x.y", 1, 1), NewTopic("x_y", 1, 1)).error_code == (
        ErrorCode.INVALID_TOPIC_EXCEPTION
    )


def test_a_name_twice_in_a_request_is_refused_once() -> None:
    controller = a_controller()
    request = controller.request(create(NewTopic("twice", 1, 1), NewTopic("once", 1, 1), NewTopic("twice", 2, 1)))
    controller.cluster.settle()
    results = {result.topic: (result.error_code, result.error_message) for result in created(controller, request)}
    assert results == {"twice": (ErrorCode.INVALID_REQUEST, "Duplicate topic name."), "once": (ErrorCode.NONE, "")}


@pytest.mark.parametrize("partitions", [0, -2, -(2**31)])
def test_fewer_than_one_partition_is_refused(partitions: int) -> None:
    result = decide(a_controller(), NewTopic("events", partitions, 1))
    assert result.error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("replication_factor", [0, -2, 4])
def test_replication_factors_that_cannot_be_are_refused(replication_factor: int) -> None:
    result = decide(a_controller(), NewTopic("events", 1, replication_factor))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_replication_factor_above_the_live_logstores_says_how_many_there_are() -> None:
    result = decide(a_controller(), NewTopic("events", 1, 4))
    assert result.error_message == (
        "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because "
        "only 3 broker(s) are registered."
    )


def test_without_a_live_logstore_nothing_is_created() -> None:
    result = decide(a_controller(logstores=0), NewTopic("events", 1, 1))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert result.error_message.endswith("All brokers are currently fenced.")


def test_minus_one_asks_for_the_defaults() -> None:
    result = decide(a_controller(), NewTopic("events", -1, -1), defaults=TopicDefaults(partitions=7))
    assert (result.partitions, result.replication_factor) == (7, 1)


@pytest.mark.parametrize("partitions", [10_001, 2**31 - 1])
def test_an_excessive_request_is_refused_whole_without_building_it(partitions: int) -> None:
    controller = a_controller()
    request = controller.request(create(NewTopic("small", 1, 1), NewTopic("huge", partitions, 1)))
    assert [result.error_code for result in created(controller, request)] == [ErrorCode.POLICY_VIOLATION] * 2


def test_partitions_spread_evenly_and_go_on_where_the_topics_before_ended() -> None:
    controller = a_controller()
    for number in range(4):
        controller.request(create(NewTopic(f"one-{number}", 1, 1)))
    controller.request(create(NewTopic("seven", 7, 1)))
    controller.cluster.settle()
    image = controller.core.image
    leaders = {
        topic.topic: [partition.leader for _, partition in image.partitions(topic.topic_id)]
        for topic in image.topics.values()
    }
    assert sorted(Counter(leaders["seven"]).values()) == [2, 2, 3]
    total = Counter(leader for each in leaders.values() for leader in each)
    assert sorted(total.values()) == [3, 4, 4]


def test_partitions_go_to_live_logstores_only() -> None:
    controller = a_controller()
    controller.cluster.stop(2)
    controller.cluster.settle()
    controller.request(create(NewTopic("events", 4, 1)))
    controller.cluster.settle()
    image = controller.core.image
    topic = image.topics["events"]
    assert sorted(partition.leader for _, partition in image.partitions(topic.topic_id)) == [1, 1, 3, 3]


def test_an_assignment_by_hand_is_followed() -> None:
    controller = a_controller()
    controller.request(create(by_hand([3], [1], [3])))
    controller.cluster.settle()
    image = controller.core.image
    topic = image.topics["events"]
    assert (topic.partitions, topic.replication_factor) == (3, 1)
    assert [partition.leader for _, partition in image.partitions(topic.topic_id)] == [3, 1, 3]


@pytest.mark.parametrize(
    ("topic", "error_code", "message"),
    [
        (by_hand([1], []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes an empty replica list."),
        (by_hand([-1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes an invalid broker id -1."),
        (by_hand([1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes the broker 1 more than once."),
        (by_hand([9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 9, but no such broker is registered."),
        (
            by_hand([1, 2], [3]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "a partition with 1 replica(s), but this is not consistent with previous partitions, "
            "which have 2 replica(s).",
        ),
        (
            NewTopic("events", -1, -1, [Assignment(0, [1]), Assignment(0, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("events", -1, -1, [Assignment(0, [1]), Assignment(2, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("events", -1, 1, [Assignment(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            NewTopic("events", 1, -1, [Assignment(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
    ],
)
def test_bad_assignments_by_hand_are_refused(topic: NewTopic, error_code: ErrorCode, message: str) -> None:
    result = decide(a_controller(), topic)
    assert result.error_code == error_code
    assert result.error_message.endswith(message)


def test_an_assignment_to_a_logstore_that_is_down_is_refused() -> None:
    controller = a_controller()
    controller.cluster.stop(2)
    controller.cluster.settle()
    result = decide(controller, by_hand([2]))
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.error_message == (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."
    )


def test_reserved_topic_ids_are_never_given() -> None:
    controller = a_controller()
    ids = iter([bytes(16), bytes(15) + b"\x01", b"\x07" * 16])
    image, request = controller.core.image, create(NewTopic("events", 1, 1))
    creation = finished(create_topics(image, request, TopicDefaults(), lambda: next(ids), Liveness({1: 1})))
    assert creation.results[0].topic_id == b"\x07" * 16


def test_errors_carry_no_topic_id() -> None:
    assert decide(a_controller(), NewTopic("a b", 1, 1)).topic_id == NO_TOPIC_ID


def test_configs_are_kept_as_given() -> None:
    controller = a_controller()
    configs = {"retention.ms": "1000", "cleanup.policy": "compact,delete"}
    controller.request(create(NewTopic("events", 1, 1, configs=configs)))
    controller.cluster.settle()
    assert controller.core.image.topics["events"].configs == configs


def test_an_unknown_config_is_refused() -> None:
    result = decide(a_controller(), NewTopic("events", 1, 1, configs={"retention.mss": "1"}))
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_CONFIG,
        "Unknown topic config name: retention.mss",
    )


def test_the_topic_of_offsets_is_compacted_and_spread_over_as_many_logstores_as_there_are() -> None:
    result = decide(a_controller(), NewTopic(OFFSETS_TOPIC, -1, -1))
    assert (result.error_code, result.partitions, result.replication_factor) == (ErrorCode.NONE, 50, 3)
    assert result.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    few = TopicDefaults(offsets=OffsetsTopic(partitions=5, replication_factor=2, segment_bytes=2_000_000))
    asked = NewTopic(OFFSETS_TOPIC, -1, -1, configs={"segment.bytes": "3000000"})
    result = decide(a_controller(), asked, defaults=few)
    assert (result.partitions, result.replication_factor) == (5, 2)
    assert result.configs["segment.bytes"] == "3000000"
    many = TopicDefaults(offsets=OffsetsTopic(replication_factor=20))
    result = decide(a_controller(), NewTopic(OFFSETS_TOPIC, 4, -1), defaults=many)
    assert (result.partitions, result.replication_factor) == (4, 3)
