"""Consumer groups of the classic protocol with librdkafka: shared, resumed, and through the deaths of services."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaError, NewTopic

from tests.integration.retried_calls import create_topic, retried
from tests.integration.running_cluster import RunningCluster
from tests.unit.runtime.test_processes import until

pytestmark = pytest.mark.integration

PROCESSORS = None
LOGSTORES = 2
PARTITIONS = 4
RECORDS = 200
SECONDS = 60.0


class Members:
    """Consumers of one group, each on a thread; every record that comes is committed before the next is asked for."""

    def __init__(self, bootstrap: str, group_id: str, topic: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 15_000,
            "heartbeat.interval.ms": 500,
        }
        self._topic = topic
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.seen: Counter[bytes] = Counter()
        self.shares: list[int] = []
        """How many partitions each member has now."""

    def join(self, count: int) -> None:
        for index in range(len(self.shares), len(self.shares) + count):
            self.shares.append(0)
            self._threads.append(threading.Thread(target=self._consume, args=(index,)))
            self._threads[-1].start()

    def _consume(self, index: int) -> None:
        def assigned(_: Consumer, partitions: list[object]) -> None:
            self.shares[index] = len(partitions)

        def revoked(_: Consumer, __: list[object]) -> None:
            self.shares[index] = 0

        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic], on_assign=assigned, on_revoke=revoked)
        while not self._over.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            value = message.value()
            assert value is not None
            self.seen[value] += 1
            try:
                consumer.commit(message, asynchronous=False)
            except KafkaException:
                # In the midst of a rebalance, or without a coordinator: it comes again.
                continue
        consumer.close()

    def leave(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def admin(cluster: RunningCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def make_topic(cluster: RunningCluster, name: str) -> str:
    create_topic(cluster.bootstrap, NewTopic(name, PARTITIONS, LOGSTORES))
    return name


def produce(cluster: RunningCluster, topic: str, begin: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(begin, end):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


async def test_two_members_share_and_a_third_goes_on_where_they_were(cluster: RunningCluster) -> None:
    topic = make_topic(cluster, "shared")
    produce(cluster, topic, 0, RECORDS)
    first = Members(cluster.bootstrap, "sharers", topic)
    try:
        first.join(2)
        await until(lambda: first.shares == [2, 2] and len(first.seen) == RECORDS)
    finally:
        first.leave()
    produce(cluster, topic, RECORDS, RECORDS + 8)
    later = Members(cluster.bootstrap, "sharers", topic)
    try:
        later.join(1)
        await until(lambda: later.shares == [PARTITIONS] and len(later.seen) >= 8)
    finally:
        later.leave()
    assert sorted(map(int, later.seen)) == list(range(RECORDS, RECORDS + 8))
    asked = admin(cluster)
    assert "sharers" in [each.group_id for each in asked.list_consumer_groups().result(timeout=SECONDS).valid]
    fetched = asked.list_consumer_group_offsets([ConsumerGroupTopicPartitions("sharers")])["sharers"]
    offsets = {each.partition: each.offset for each in fetched.result(timeout=SECONDS).topic_partitions}
    assert offsets == dict.fromkeys(range(PARTITIONS), (RECORDS + 8) // PARTITIONS)
    deleted = asked.delete_consumer_groups(["sharers", "nobody"])
    assert deleted["sharers"].exception(timeout=SECONDS) is None
    refusal = deleted["nobody"].exception(timeout=SECONDS)
    assert isinstance(refusal, KafkaException)
    assert refusal.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


async def test_a_group_outlives_its_coordinator(cluster: RunningCluster) -> None:
    topic = make_topic(cluster, "outlived")
    produce(cluster, topic, 0, RECORDS)
    members = Members(cluster.bootstrap, "survivors", topic)
    try:
        members.join(2)
        await until(lambda: members.shares == [2, 2] and len(members.seen) == RECORDS)
        asked = admin(cluster)
        described = retried(lambda: asked.describe_consumer_groups(["survivors"])["survivors"].result(timeout=SECONDS))
        coordinator = f"logstore-{described.coordinator.id}"
        cluster.kill(coordinator)
        produce(cluster, topic, RECORDS, 2 * RECORDS)
        await until(lambda: len(members.seen) == 2 * RECORDS)
    finally:
        members.leave()
        cluster.up()


async def test_a_group_forms_without_a_waiting_room(cluster: RunningCluster) -> None:
    topic = make_topic(cluster, "unparked")
    produce(cluster, topic, 0, RECORDS)
    cluster.kill("purgatory")
    members = Members(cluster.bootstrap, "impatient", topic)
    try:
        members.join(2)
        await until(lambda: members.shares == [2, 2] and len(members.seen) == RECORDS)
    finally:
        members.leave()
        cluster.up()
