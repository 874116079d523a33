"""A day's work of an operator who has a gRPC client, reflection, and no code of ours: what is there, what is wrong, who
was the controller when; a logstore drained, stopped, and returned; and every refusal in one clear line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from tests.integration.running_cluster import RunningCluster
from tests.integration.test_ops_api import OPERATIONS, ReflectedService

pytestmark = [pytest.mark.integration, pytest.mark.deep]

LOGSTORES = 3
WAIT_SECONDS = 60


class Operator(ReflectedService):
    """The same, with streams."""

    def watch(self, **arguments: Any) -> Any:
        descriptor = self._service.methods_by_name["WatchEvents"]
        call = self._channel.unary_stream(
            f"/{OPERATIONS}/WatchEvents",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(descriptor.output_type).FromString,
        )
        return call(GetMessageClass(descriptor.input_type)(**arguments), timeout=WAIT_SECONDS)


@pytest.fixture
def operator(cluster: RunningCluster) -> Iterator[Operator]:
    service = Operator(cluster.ops_address)
    yield service
    service.close()


@pytest.fixture(scope="module", autouse=True)
def events_topic(cluster: RunningCluster) -> None:
    service = Operator(cluster.ops_address)
    configs = {"min.insync.replicas": "2"}
    service("CreateTopic", topic="events", partitions=6, replication_factor=3, configs=configs)
    service.close()


def until(condition: Callable[[], Any]) -> Any:
    """What it gives when it gives something."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "in time"
        time.sleep(0.1)
    return found


def names(partitions: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["topic"], each["partition"]) for each in partitions]


def test_which_node_leads_what_is_one_call(operator: Operator) -> None:
    led = [operator("ListPartitions", topic="events", leader=node_id) for node_id in range(LOGSTORES)]
    assert [answer["total"] for answer in led] == [2, 2, 2]
    assert all(each["leader"] == node_id for node_id, answer in enumerate(led) for each in answer["partitions"])


def test_lists_come_in_pages(operator: Operator) -> None:
    found, token = [], ""
    for _ in range(3):
        answer = operator("ListPartitions", topic="events", page_size=2, page_token=token)
        assert (len(answer["partitions"]), answer["total"]) == (2, 6)
        found += names(answer["partitions"])
        token = answer["next_page_token"]
    assert (found, token) == ([("events", number) for number in range(6)], "")


def test_a_node_is_drained_stopped_found_under_replicated_and_returned(
    cluster: RunningCluster, operator: Operator
) -> None:
    watch = operator.watch()
    begin = next(watch)
    assert (begin.revision > 0, len(begin.events)) == (True, 0)
    could = operator("DrainNode", node_id=1, validate_only=True)
    assert (could["leaders"], could["replicas"]) == (2, 6)
    operator("DrainNode", node_id=1)
    drain = until(lambda: [each for each in operator("ListDrains")["drains"] if each["done"]])[0]
    assert (drain["node_id"], drain["leaders"], drain["replicas"], drain["blocked"]) == (1, 0, 6, [])
    assert operator("ListPartitions", leader=1)["total"] == 0
    assert operator("ListPartitions", conditions=["UNDER_REPLICATED"])["total"] == 0, "it stays in sync"
    cluster.kill("logstore-1")
    lagging = until(lambda: operator("ListPartitions", conditions=["UNDER_REPLICATED"])["partitions"])
    assert lagging[0]["topic"] == "events"
    assert 1 not in lagging[0]["in_sync_replicas"]
    until(lambda: operator("ListPartitions", conditions=["UNDER_REPLICATED"])["total"] == 6)
    assert operator("DescribeCluster")["under_replicated_partitions"] == 6
    cluster.start("logstore-1")
    until(lambda: operator("ListPartitions", conditions=["UNDER_REPLICATED"])["total"] == 0)
    assert operator("ListPartitions", leader=1)["total"] == 0, "still drained"
    operator("ReturnNode", node_id=1)
    until(lambda: operator("ListPartitions", leader=1)["total"] == 2)
    kinds: list[str] = []
    for response in watch:
        kinds += [str(event.WhichOneof("what")) for event in response.events]
        if "drain_ended" in kinds and kinds[-1] == "leader_changed":
            break
    assert kinds.index("drain_begun") < kinds.index("leader_changed") < kinds.index("node_down")
    assert kinds.index("node_down") < kinds.index("isr_shrunk") < kinds.index("node_up") < kinds.index("isr_expanded")
    watch.cancel()
    again = operator.watch(from_revision=begin.revision)
    assert next(again).revision == begin.revision
    assert MessageToDict(next(again).events[0])["drainBegun"] == {"nodeId": 1}
    again.cancel()


def test_who_was_the_controller_when(cluster: RunningCluster, operator: Operator) -> None:
    before = operator("DescribeControllerHistory")["terms"]
    assert before[-1]["controller_id"] == "controller"
    cluster.kill("controller")
    cluster.start("controller")

    def later() -> list[dict[str, Any]]:
        try:
            terms: list[dict[str, Any]] = operator("DescribeControllerHistory")["terms"]
        except grpc.RpcError:
            return []
        return terms if len(terms) > len(before) else []

    terms = until(later)
    epochs = [term["controller_epoch"] for term in terms]
    assert epochs == sorted(set(epochs))
    assert terms[-2]["until_ms"] == terms[-1]["since_ms"]
    assert int(terms[-1]["since_ms"]) > int(terms[-2]["since_ms"])


def test_groups_are_listed_with_their_lag(cluster: RunningCluster, operator: Operator) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for _ in range(10):
        producer.produce("events", b"record", partition=3)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("events", 3, 4)], asynchronous=False)
    consumer.close()
    listed = operator("ListGroups")
    assert [group["group_id"] for group in listed["groups"]] == ["readers"]
    assert listed["unanswered"] == []
    described = operator("DescribeGroup", group_id="readers")
    (offset,) = described["offsets"]
    assert (offset["topic"], offset["partition"]) == ("events", 3)
    assert (offset["committed_offset"], offset["log_end_offset"], offset["lag"]) == ("4", "10", "6")
    assert (described["total_lag"], described["unanswered"]) == ("6", [])


def test_configs_say_where_they_come_from(operator: Operator) -> None:
    (entry,) = operator("DescribeConfigs", topic="events", keys=["min.insync.replicas"])["configs"]
    assert (entry["value"], entry["source"]) == ("2", "TOPIC_CONFIG")
    operator("AlterBrokerConfigs", broker=2, set_configs={"log.retention.ms": "3600000"})
    (entry,) = operator("DescribeConfigs", broker=2, keys=["log.retention.ms"])["configs"]
    assert (entry["value"], entry["source"]) == ("3600000", "DYNAMIC_BROKER_CONFIG")
    static = {each["name"]: each for each in operator("DescribeConfigs", broker=2, only_set=True)["configs"]}
    assert static["node.id"]["source"] == "STATIC_BROKER_CONFIG"


def test_moves_are_begun_described_and_throttled(operator: Operator) -> None:
    operator("CreateTopic", topic="moving", partitions=1, replication_factor=1)
    (before,) = operator("ListPartitions", topic="moving")["partitions"]
    home = before["leader"]
    away = (home + 1) % LOGSTORES
    move = {"topic": "moving", "partition": 0, "replicas": [away]}
    operator("Reassign", moves=[move], throttle_bytes_per_second=1_000_000)
    until(lambda: operator("ListReassignments")["total"] == 0)
    (after,) = operator("ListPartitions", topic="moving")["partitions"]
    assert (after["replicas"], after["leader"]) == ([away], away)
    assert operator("RemoveThrottles")["changed"] == 2
    assert operator("RemoveThrottles")["changed"] == 0
    operator("DeleteTopic", topic="moving")


def test_the_balance_is_paused_and_resumed(operator: Operator) -> None:
    operator("PauseBalance")
    assert operator("DescribeCluster")["balance"]["paused"]
    operator("ResumeBalance")
    assert not operator("DescribeCluster")["balance"]["paused"]


@pytest.mark.parametrize(
    ("method", "arguments", "code", "words"),
    [
        ("DrainNode", {"node_id": 9}, grpc.StatusCode.NOT_FOUND, "there is no logstore 9; there are 0, 1, 2"),
        ("ReturnNode", {"node_id": 0}, grpc.StatusCode.NOT_FOUND, "logstore 0 is not drained"),
        ("RemoveNode", {"node_id": 0}, grpc.StatusCode.FAILED_PRECONDITION, "logstore 0 is alive"),
        (
            "DrainNode",
            {"node_id": 0, "move_replicas": True},
            grpc.StatusCode.FAILED_PRECONDITION,
            "would have no place for a replica",
        ),
        ("ListPartitions", {"topic": "nowhere"}, grpc.StatusCode.NOT_FOUND, "nowhere"),
        ("ListPartitions", {"leader": 9}, grpc.StatusCode.NOT_FOUND, "there is no logstore 9"),
        ("ListPartitions", {"page_size": 99_999}, grpc.StatusCode.INVALID_ARGUMENT, "page_size"),
        ("ListPartitions", {"page_token": "?"}, grpc.StatusCode.INVALID_ARGUMENT, "page_token"),
        ("ListNodes", {"role": "broker"}, grpc.StatusCode.INVALID_ARGUMENT, "there is no role 'broker'"),
        ("DescribeGroup", {"group_id": "nobody"}, grpc.StatusCode.NOT_FOUND, "there is no group 'nobody'"),
        ("DescribeConfigs", {}, grpc.StatusCode.INVALID_ARGUMENT, "name one of the two"),
        ("RunElection", {"kind": "UNCLEAN"}, grpc.StatusCode.INVALID_ARGUMENT, "name the partitions"),
        (
            "CancelReassignments",
            {"partitions": [{"topic": "events", "partitions": [0]}]},
            grpc.StatusCode.FAILED_PRECONDITION,
            "NO_REASSIGNMENT_IN_PROGRESS",
        ),
        (
            "Reassign",
            {"moves": [{"topic": "events", "partition": 0, "replicas": [0, 9]}]},
            grpc.StatusCode.INVALID_ARGUMENT,
            "INVALID_REPLICA_ASSIGNMENT",
        ),
        (
            "Reassign",
            {"moves": [{"topic": "events", "partition": 77, "replicas": [0]}]},
            grpc.StatusCode.NOT_FOUND,
            "there is no partition events-77",
        ),
        (
            "AlterBrokerConfigs",
            {"broker": 0, "set_configs": {"no.such.key": "1"}},
            grpc.StatusCode.INVALID_ARGUMENT,
            "INVALID_CONFIG",
        ),
    ],
)
def test_refusals(
    operator: Operator, method: str, arguments: dict[str, Any], code: grpc.StatusCode, words: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        operator(method, **arguments)
    assert refused.value.code() is code
    assert words in (refused.value.details() or "")
    assert "\n" not in (refused.value.details() or "")


def test_events_that_are_not_kept_are_out_of_range(operator: Operator) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        next(operator.watch(from_revision=1))
    assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE


def test_the_command_shows_the_same_to_people_and_programs(cluster: RunningCluster) -> None:
    table = cluster.cli("partitions", "events", "--leader", "0").stdout.splitlines()
    assert table[0].split()[:2] == ["PARTITION", "LEADER"]
    assert len(table) == 1 + 2
    found = msgspec.json.decode(cluster.cli("partitions", "events", "--leader", "0", "--json").stdout)
    assert [each["leader"] for each in found] == [0, 0]
    nodes = msgspec.json.decode(cluster.cli("nodes", "--role", "logstore", "--json").stdout)
    assert [node["id"] for node in nodes] == ["0", "1", "2"]
    assert cluster.cli("status", "--address", cluster.ops_address).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("drain", "9"), "there is no logstore 9"),
        (("topics", "describe", "nowhere"), "there is no topic 'nowhere'"),
        (("drain", "0", "--move-replicas"), "would have no place"),
        (("nodes", "--address", "127.0.0.1:1"), "can't be reached"),
        (("status", "--address", "127.0.0.1:1"), "can't be reached"),
        (("nodes", "--address", "nonsense"), "is not a controller address"),
    ],
)
def test_the_command_refuses_in_one_line(cluster: RunningCluster, arguments: tuple[str, ...], words: str) -> None:
    answer = cluster.cli(*arguments)
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert line.startswith("error: ")
    assert words in line
