"""AlterConfigs: Kafka's rules, a test each, and when the answer is given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.messages import (
    ALL_BROKERS,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
    NewTopic,
)
from barnabas.ports.etcd import Get
from barnabas.wire.errors import ErrorCode
from tests.tiers import Cost, examples
from tests.unit.controller.cluster import (
    APPEND,
    BROKER,
    DELETE,
    KEYS,
    SET,
    SUBTRACT,
    Cluster,
    ControllerNode,
    alter,
    altered,
    create,
    error_codes,
    to_set,
)

# A value of a good length, which the readers of a record would choke on by the thousand.
LONG_LIST = ",".join(f"{partition}:1" for partition in range(20_000))


def a_cluster(**configs: str) -> tuple[Cluster, ControllerNode]:
    """A controller, two logstores and the topic "events" with these configs."""
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.logstore(2)
    cluster.settle()
    topic = NewTopic("events", 2, 1, configs={name.replace("_", "."): value for name, value in configs.items()})
    request = controller.request(create(topic))
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]
    return cluster, controller


def outcome(cluster: Cluster, controller: ControllerNode, request: AlterConfigsRequest) -> AlterConfigsResult:
    request_id = controller.request(request)
    cluster.settle()
    return altered(controller, request_id)


def configs_of(controller: ControllerNode, topic: str = "events") -> dict[str, str]:
    return controller.core.image.topics[topic].configs


def broker_configs_of(controller: ControllerNode, broker_id: int = ALL_BROKERS) -> dict[str, str]:
    record = controller.core.image.broker_configs.get(broker_id)
    return {} if record is None else record.configs


def test_incremental_changes_leave_the_other_overrides() -> None:
    cluster, controller = a_cluster(retention_ms="1000", segment_ms="2000")
    changes = [to_set("retention.ms", "3000"), ConfigChange("segment.ms", DELETE, ""), to_set("flush.ms", " 5 ")]
    assert outcome(cluster, controller, alter("events", *changes)).error_code == ErrorCode.NONE
    assert configs_of(controller) == {"retention.ms": "3000", "flush.ms": " 5 "}


def test_a_full_change_replaces_all_overrides() -> None:
    cluster, controller = a_cluster(retention_ms="1000", segment_ms="2000")
    assert outcome(cluster, controller, alter("events", to_set("flush.ms", "5"), replace=True)).error_code == 0
    assert configs_of(controller) == {"flush.ms": "5"}
    assert outcome(cluster, controller, alter("events", replace=True)).error_code == ErrorCode.NONE
    assert configs_of(controller) == {}


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "delete,compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("compact, delete", SUBTRACT, "delete", "compact"),
        (None, SUBTRACT, "delete", ""),
        ("compact", SUBTRACT, "delete", "compact"),
    ],
)
def test_lists_are_appended_to_and_subtracted_from(before: str | None, operation: int, value: str, after: str) -> None:
    cluster, controller = a_cluster(**({} if before is None else {"cleanup_policy": before}))
    request = alter("events", ConfigChange("cleanup.policy", operation, value))
    assert outcome(cluster, controller, request).error_code == ErrorCode.NONE
    assert configs_of(controller) == {"cleanup.policy": after}


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "nonsense"])
def test_only_lists_can_be_appended_to(operation: int, name: str) -> None:
    cluster, controller = a_cluster()
    result = outcome(cluster, controller, alter("events", ConfigChange(name, operation, "1")))
    word = "APPEND" if operation == APPEND else "SUBTRACT"
    message = f"Can't {word} to key {name} because its type is not LIST."
    assert result == AlterConfigsResult(ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (alter("events", to_set("nonsense", "1")), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nonsense"),
        (
            alter("events", to_set("retention.ms", "soon")),
            ErrorCode.INVALID_CONFIG,
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (alter("nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nobody' does not exist."),
        (alter(""), ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (
            alter("a/b"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a/b' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            alter("events", to_set("flush.ms", "1"), to_set("flush.ms", "2")),
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (alter("events", ConfigChange("flush.ms", 9, "1")), ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (alter("1", resource_type=8), ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
        (
            alter("events", to_set("leader.replication.throttled.replicas", LONG_LIST)),
            ErrorCode.INVALID_CONFIG,
            "The configs of a resource may have 131072 bytes at most.",
        ),
        (
            alter("x", to_set("log.retention.ms", "1"), resource_type=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: x",
        ),
        (
            alter("7", to_set("log.retention.ms", "1"), resource_type=BROKER),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "No broker with id 7 found.",
        ),
        (
            alter("", to_set("node.id", "1"), to_set("log.retention.hours", "1"), resource_type=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [log.retention.hours, node.id]",
        ),
        (
            alter("1", to_set("num.network.threads", "4"), resource_type=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs for one broker, since gateways serve all brokers; "
            "they can be updated at default cluster level: [num.network.threads]",
        ),
        (
            alter("", to_set("log.retention.ms", "x"), resource_type=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            alter("", to_set("nonsense", "1"), resource_type=BROKER),
            ErrorCode.INVALID_CONFIG,
            "Unknown broker config name: nonsense",
        ),
        (
            alter("", to_set("principal.builder.class", "x"), resource_type=BROKER),
            ErrorCode.INVALID_CONFIG,
            "principal.builder.class: there is no JVM, so no class can be loaded",
        ),
    ],
)
def test_what_is_wrong_is_refused_as_a_whole(request_: AlterConfigsRequest, code: ErrorCode, message: str) -> None:
    cluster, controller = a_cluster()
    assert outcome(cluster, controller, request_) == AlterConfigsResult(code, message)
    assert configs_of(controller) == {}
    assert controller.core.image.broker_configs == {}


def test_each_resource_stands_alone_and_none_may_come_twice() -> None:
    cluster, controller = a_cluster()
    resources = [
        AlterConfigsResource(2, "events", False, [to_set("flush.ms", "5")]),
        AlterConfigsResource(2, "nobody", False, []),
        AlterConfigsResource(BROKER, "", False, [to_set("log.flush.interval.ms", "6")]),
        AlterConfigsResource(BROKER, "1", False, []),
        AlterConfigsResource(BROKER, "1", False, []),
    ]
    request_id = controller.request(AlterConfigsRequest(resources, 1000))
    cluster.settle()
    response = controller.responses[request_id]
    assert isinstance(response, AlterConfigsResponse)
    twice = AlterConfigsResult(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    unknown = AlterConfigsResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nobody' does not exist.")
    assert response.results == [AlterConfigsResult(0), unknown, AlterConfigsResult(0), twice, twice]
    assert configs_of(controller) == {"flush.ms": "5"}
    assert broker_configs_of(controller) == {"log.flush.interval.ms": "6"}


def test_validate_only_and_what_is_so_already_write_nothing() -> None:
    cluster, controller = a_cluster(flush_ms="5")
    revision = cluster.etcd.revision
    assert outcome(cluster, controller, alter("events", to_set("flush.ms", "6"), validate_only=True)).error_code == 0
    assert outcome(cluster, controller, alter("events", to_set("flush.ms", "5"))).error_code == ErrorCode.NONE
    assert outcome(cluster, controller, alter("events", ConfigChange("segment.ms", DELETE, ""))).error_code == 0
    assert cluster.etcd.revision == revision


def test_brokers_get_configs_of_their_own_and_of_all() -> None:
    cluster, controller = a_cluster()
    gateway = cluster.gateway(controller)
    change = to_set("log.retention.ms", "1000")
    assert outcome(cluster, controller, alter("", change, resource_type=BROKER)).error_code == ErrorCode.NONE
    assert outcome(cluster, controller, alter("2", change, resource_type=BROKER)).error_code == ErrorCode.NONE
    assert controller.subscribers[gateway].broker_configs == {
        ALL_BROKERS: {"log.retention.ms": "1000"},
        2: {"log.retention.ms": "1000"},
    }
    updates = [each.update_metadata for each in cluster.logstores[1].requests if each.update_metadata is not None]
    assert [each.broker_id for each in updates[-1].broker_configs] == [ALL_BROKERS, 2]
    # Without any, the record itself goes.
    gone = alter("2", ConfigChange("log.retention.ms", DELETE, ""), resource_type=BROKER)
    assert outcome(cluster, controller, gone).error_code == ErrorCode.NONE
    assert controller.subscribers[gateway].broker_configs == {ALL_BROKERS: {"log.retention.ms": "1000"}}
    assert cluster.etcd.get(Get(KEYS.broker_configs(2))) == ()


def test_the_answer_waits_for_the_leaders_that_are_up_and_for_gateways() -> None:
    cluster, controller = a_cluster()
    cluster.gateway(controller)
    cluster.settle()
    cluster.logstores[1].answering = False
    request_id = controller.request(alter("events", to_set("flush.ms", "5")))
    cluster.settle()
    assert request_id not in controller.responses
    cluster.crash(1)
    cluster.advance(100)
    assert altered(controller, request_id).error_code == ErrorCode.NONE
    controller.acknowledging = False
    request_id = controller.request(alter("events", to_set("flush.ms", "6")))
    cluster.settle()
    assert request_id not in controller.responses
    controller.acknowledging = True
    cluster.settle()
    assert altered(controller, request_id).error_code == ErrorCode.NONE


def test_configs_of_brokers_wait_for_every_logstore_that_is_up() -> None:
    cluster, controller = a_cluster()
    cluster.logstores[2].answering = False
    request_id = controller.request(alter("", to_set("log.flush.interval.ms", "5"), resource_type=BROKER))
    cluster.settle()
    assert request_id not in controller.responses
    cluster.logstores[2].answering = True
    cluster.settle()
    assert altered(controller, request_id).error_code == ErrorCode.NONE


def test_what_is_done_is_not_called_undone_because_somebody_is_slow() -> None:
    cluster, controller = a_cluster()
    for logstore in cluster.logstores.values():
        logstore.answering = False
    request_id = controller.request(alter("events", to_set("flush.ms", "5"), timeout_ms=500))
    cluster.advance(1000)
    assert altered(controller, request_id).error_code == ErrorCode.NONE
    assert configs_of(controller) == {"flush.ms": "5"}


def test_a_new_controller_knows_the_configs() -> None:
    cluster, controller = a_cluster()
    assert outcome(cluster, controller, alter("1", to_set("log.roll.ms", "5"), resource_type=BROKER)).error_code == 0
    successor = cluster.controller("controller-1")
    controller.cut_off = True
    cluster.advance(10_000)
    assert successor.is_active()
    assert broker_configs_of(successor, 1) == {"log.roll.ms": "5"}


NAMES = ("flush.ms", "retention.ms", "segment.ms")
CHANGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([SET, DELETE]), st.integers(1, 10**9)), min_size=1, max_size=12
)


@examples(Cost.HIGH)
@given(changes=CHANGES, settle_after=st.sets(st.integers(0, 11)))
def test_concurrent_alterations_never_lose_each_others_keys(
    changes: list[tuple[str, int, int]], settle_after: set[int]
) -> None:
    cluster, controller = a_cluster()
    expected: dict[str, str] = {}
    for position, (name, operation, value) in enumerate(changes):
        controller.request(alter("events", ConfigChange(name, operation, str(value))))
        if operation == SET:
            expected[name] = str(value)
        else:
            expected.pop(name, None)
        if position in settle_after:
            cluster.settle()
    cluster.settle()
    assert configs_of(controller) == expected
