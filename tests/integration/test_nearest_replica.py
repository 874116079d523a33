"""Consumers in racks read from the replicas there (KIP-392), with librdkafka and with Kafka's own consumer."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]

LOGSTORES = 3
RACKS = ("a", "b", "c")
RECORDS = 2_000
SECONDS = 30.0
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="module")
def racks(cluster: RunningCluster) -> RunningCluster:
    for logstore_id, rack in enumerate(RACKS):
        properties = cluster.local.service(f"logstore-{logstore_id}").properties
        properties.update({"broker.rack": rack, "replica.selector.class": SELECTOR})
    cluster.up()
    return cluster


@pytest.fixture(scope="module")
def topic(racks: RunningCluster) -> str:
    """Led by broker 0, with a replica in each rack."""
    name = "in-racks"
    admin = AdminClient({"bootstrap.servers": racks.bootstrap})
    made = NewTopic(name, 1, replica_assignment=[[0, 1, 2]], config={"min.insync.replicas": "3"})
    admin.create_topics([made])[name].result(timeout=SECONDS)
    producer = Producer({"bootstrap.servers": racks.bootstrap, "acks": "all", "batch.size": 10_000})
    for number in range(RECORDS):
        producer.produce(name, b"%06d" % number * 20, partition=0)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    return name


def consume(bootstrap: str, topic: str, rack: str) -> tuple[list[int], list[int]]:
    """The numbers read from the beginning, and the brokers that librdkafka fetched from, in their order."""
    brokers: list[int] = []

    def note(text: str) -> None:
        partitions = json.loads(text)["topics"].get(topic, {}).get("partitions", {})
        broker = partitions.get("0", {}).get("broker", -1)
        if broker >= 0 and brokers[-1:] != [broker]:
            brokers.append(broker)

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "client.rack": rack,
            "enable.auto.commit": False,
            "statistics.interval.ms": 20,
            "stats_cb": note,
            "fetch.message.max.bytes": 10_000,
            "queued.min.messages": 1,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    numbers: list[int] = []
    while len(numbers) < RECORDS:
        message = consumer.poll(SECONDS)
        assert message is not None, f"after {len(numbers)} records nothing more came"
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        numbers.append(int(value[:6]))
    # The statistics of where the last of them came from.
    consumer.poll(0.2)
    consumer.close()
    return numbers, brokers


@pytest.mark.parametrize(("rack", "nearest"), [("a", 0), ("b", 1), ("c", 2), ("nowhere", 0)])
def test_librdkafka_reads_from_its_own_rack(racks: RunningCluster, topic: str, rack: str, nearest: int) -> None:
    numbers, brokers = consume(racks.bootstrap, topic, rack)
    assert numbers == list(range(RECORDS))
    assert brokers[-1] == nearest


@pytest.mark.java
@pytest.mark.parametrize(("rack", "nearest"), [("a", -1), ("b", 1), ("nowhere", -1)])
def test_the_java_consumer_reads_from_its_own_rack(
    racks: RunningCluster, topic: str, kafka_tools: KafkaTools, rack: str, nearest: int
) -> None:
    lines = kafka_tools.output("NearestReplica", racks.bootstrap, topic, rack, str(RECORDS)).splitlines()
    assert f"read {RECORDS} in order" in lines
    # Kafka's consumer has no such metric before a replica was named.
    assert f"preferred {nearest}" in lines or (nearest == -1 and "preferred -2" in lines)


def test_at_one_shared_address_the_gateway_reads_from_the_rack(racks: RunningCluster, topic: str) -> None:
    racks.local.service("gateway").properties["advertised.address.policy"] = "shared"
    racks.up()
    numbers, brokers = consume(racks.bootstrap, topic, "b")
    assert numbers == list(range(RECORDS))
    assert brokers == [0], "no client is sent to another replica"
