"""`kafka-reassign-partitions --throttle`, by Kafka's own tool: it slows a move down, lets it go, and clears up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic

from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.deep]

LOGSTORES = 2
TOPIC = "moved-slowly"
SECONDS = 60.0
RATE_KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LIST_KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@pytest.fixture
def plan(cluster: RunningCluster, tmp_path: Path) -> Path:
    """A partition of some megabytes is to go from broker 0 to broker 1."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[0]])])[TOPIC].result(timeout=SECONDS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 100_000})
    for _ in range(4_000):
        producer.produce(TOPIC, bytes(1_000), partition=0)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [1]}]}))
    return path


def reassign(tools: KafkaTools, cluster: RunningCluster, plan: Path, *arguments: str) -> str:
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    files = ("--reassignment-json-file", str(plan))
    return tools.both_outputs(tool, "--bootstrap-server", cluster.bootstrap, *files, *arguments)


def configs(cluster: RunningCluster, kind: ConfigResource.Type, name: str, keys: tuple[str, ...]) -> dict[str, str]:
    """Those that are set."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    resource = ConfigResource(kind, name)
    entries = admin.describe_configs([resource])[resource].result(timeout=SECONDS)
    return {key: entries[key].value for key in keys if key in entries and not entries[key].is_default}


def test_a_throttled_reassignment(kafka_tools: KafkaTools, cluster: RunningCluster, plan: Path) -> None:
    topic, broker = ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER
    said = reassign(kafka_tools, cluster, plan, "--execute", "--throttle", "1")
    assert "The inter-broker throttle limit was set to 1 B/s" in said
    assert "Successfully started partition reassignment" in said
    assert configs(cluster, topic, TOPIC, LIST_KEYS) == {LIST_KEYS[0]: "0:0", LIST_KEYS[1]: "0:1"}
    for node_id in ("0", "1"):
        assert configs(cluster, broker, node_id, RATE_KEYS) == dict.fromkeys(RATE_KEYS, "1")
    # At a byte a second only whole batches come, each in a while: there are forty.
    said = reassign(kafka_tools, cluster, plan, "--verify")
    assert f"Reassignment of partition {TOPIC}-0 is still in progress" in said

    said = reassign(kafka_tools, cluster, plan, "--execute", "--additional", "--throttle", "100000000")
    assert "The inter-broker throttle limit was set to 100000000 B/s" in said
    deadline = time.monotonic() + SECONDS
    while "is completed" not in (said := reassign(kafka_tools, cluster, plan, "--verify")):
        assert time.monotonic() < deadline, said
    assert "Clearing broker-level throttles" in said
    assert "Clearing topic-level throttles" in said
    assert configs(cluster, topic, TOPIC, LIST_KEYS) == {}
    for node_id in ("0", "1"):
        assert configs(cluster, broker, node_id, RATE_KEYS) == {}
