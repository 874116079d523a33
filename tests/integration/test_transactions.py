"""librdkafka's transactional producer on three logstores: commits, aborts, a fenced producer, a killed coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.integration.retried_calls import committed_offsets, create_topic, transaction_coordinator
from tests.integration.running_cluster import RunningCluster

pytestmark = pytest.mark.integration

SECONDS_MAX = 60.0
TOPIC, PARTITIONS = "orders", 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("transactions")
    with RunningCluster(directory, logstores=3) as running:
        create_topic(running.bootstrap, NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=3))
        yield running


def producer_of(cluster: RunningCluster, transactional_id: str) -> Producer:
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    producer = Producer(settings | {"transaction.timeout.ms": 60_000, "reconnect.backoff.max.ms": 500})
    producer.init_transactions(SECONDS_MAX)
    return producer


def send(producer: Producer, name: str) -> None:
    """Begin a transaction with one record to each partition."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, value=f"{name} {partition}".encode(), partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


def read(cluster: RunningCluster, isolation: str, *, until: str) -> list[str]:
    """Return the values of all partitions, each up to the record that this name has there."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "readers",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    values: list[str] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"{isolation}: {values}"
        assert message.error() is None
        if message.partition() not in ended:
            value = (message.value() or b"").decode()
            values.append(value)
            if value.startswith(until):
                ended.add(message.partition())
    consumer.close()
    return values


def test_transactions_from_the_first_to_a_killed_coordinator(cluster: RunningCluster) -> None:
    producer = producer_of(cluster, "shop")
    send(producer, "first")
    producer.commit_transaction(SECONDS_MAX)
    send(producer, "aborted")
    producer.abort_transaction(SECONDS_MAX)
    send(producer, "second")
    producer.commit_transaction(SECONDS_MAX)

    committed = read(cluster, "read_committed", until="second")
    assert sorted(committed) == sorted(f"{name} {each}" for name in ("first", "second") for each in range(PARTITIONS))
    assert any(value.startswith("aborted") for value in read(cluster, "read_uncommitted", until="second"))

    send(producer, "third")
    cluster.kill(f"logstore-{transaction_coordinator(cluster.bootstrap, 'shop')}")
    producer.commit_transaction(SECONDS_MAX)
    cluster.up()
    assert len(read(cluster, "read_committed", until="third")) == 3 * PARTITIONS


def test_a_second_producer_fences_the_first(cluster: RunningCluster) -> None:
    first = producer_of(cluster, "one at a time")
    send(first, "zombie")
    second = producer_of(cluster, "one at a time")
    with pytest.raises(KafkaException):
        first.commit_transaction(SECONDS_MAX)
    send(second, "successor")
    second.commit_transaction(SECONDS_MAX)
    assert not any(value.startswith("zombie") for value in read(cluster, "read_committed", until="successor"))


def test_offsets_are_committed_with_their_transaction_or_not_at_all(cluster: RunningCluster) -> None:
    """A loop of consume, transform and produce: the group goes on after what was committed, not after what was not."""
    for topic in ("taken", "given"):
        create_topic(cluster.bootstrap, NewTopic(topic, num_partitions=1, replication_factor=3))
    source = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(6):
        source.produce("taken", str(number).encode())
    assert source.flush(SECONDS_MAX) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "loop",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["taken"])
    producer = producer_of(cluster, "loop")

    def carry(count: int) -> None:
        producer.begin_transaction()
        for _ in range(count):
            message = consumer.poll(SECONDS_MAX)
            assert message is not None
            assert message.error() is None
            producer.produce("given", message.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS_MAX)

    def committed() -> int:
        (found,) = committed_offsets(consumer, "taken", 1)
        return found

    carry(2)
    producer.commit_transaction(SECONDS_MAX)
    assert committed() == 2
    carry(2)
    producer.abort_transaction(SECONDS_MAX)
    assert committed() == 2
    consumer.seek(TopicPartition("taken", 0, 2))
    carry(4)
    producer.commit_transaction(SECONDS_MAX)
    assert committed() == 6
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    )
    reader.assign([TopicPartition("given", 0, 0)])
    given = []
    while len(given) < 6:
        message = reader.poll(SECONDS_MAX)
        assert message is not None
        assert message.error() is None
        given.append((message.value() or b"").decode())
    assert given == ["0", "1", "2", "3", "4", "5"]
    assert reader.poll(2) is None
    reader.close()
    consumer.close()
