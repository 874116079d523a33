"""kill -9 of each service under load, then `up`: nothing acknowledged is lost, nothing is doubled."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.integration.kafka_clients import Confluent
from tests.integration.running_cluster import RunningCluster

pytestmark = pytest.mark.integration

LOGSTORES = 2
PARTITIONS = 4
RECORDS_AROUND = 2000
"""Acknowledged before the kill, and again after the repair."""
SECONDS_MAX = 60.0


class Load:
    """An idempotent producer that numbers its records, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._stopped = threading.Event()
        self.acknowledged: list[tuple[int, bytes]] = []
        self.failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
                "queue.buffering.max.messages": 2000,
                "log_level": 2,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for_more(self, records: int) -> None:
        """Until so many more are acknowledged than are now."""
        wanted = len(self.acknowledged) + records
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {wanted} records acknowledged"
            time.sleep(0.02)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(SECONDS_MAX) == 0

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            try:
                for _ in range(20):
                    value = b"%d" % number
                    self._producer.produce(
                        self._topic, value, partition=number % PARTITIONS, on_delivery=self._delivered
                    )
                    number += 1
            except BufferError:
                pass
            self._producer.poll(0.01)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
        else:
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert value is not None
            self.acknowledged.append((partition, value))


OTHERS = ("gateway", "purgatory", "controller", "etcd")


@pytest.mark.parametrize("service", ["logstore-1", *(pytest.param(name, marks=pytest.mark.deep) for name in OTHERS)])
def test_kill_under_load(cluster: RunningCluster, service: str) -> None:
    client = Confluent(cluster.bootstrap)
    topic = f"killed-{service}"
    client.create_topic(topic, PARTITIONS)
    load = Load(cluster.bootstrap, topic)
    try:
        load.wait_for_more(RECORDS_AROUND)
        cluster.kill(service)

        status = cluster.cli("status")
        assert status.returncode == 1
        assert f"{service} is down: died" in status.stdout

        up = cluster.cli("up")
        assert up.returncode == 0, up.stdout + up.stderr
        assert "had died; starting it again" in up.stdout
        assert cluster.cli("status").returncode == 0
        load.wait_for_more(RECORDS_AROUND)
    finally:
        load.stop()

    assert load.failures == []
    for partition in range(PARTITIONS):
        acknowledged = [value for at, value in load.acknowledged if at == partition]
        read = client.consume(topic, partition, len(acknowledged))
        assert read == sorted(acknowledged, key=int), "in the order in which they were sent"
        assert max(Counter(read).values()) == 1
        assert end_of(cluster, topic, partition) == len(acknowledged)


def end_of(cluster: RunningCluster, topic: str, partition: int) -> int:
    """The log end offset: nothing lies beyond what was read."""
    from barnabas.wire.messages.list_offsets import LATEST_TIMESTAMP
    from barnabas_cli.record_client import RecordClient

    host, _, port = cluster.bootstrap.rpartition(":")
    with RecordClient(host, int(port)) as client:
        return client.offset(topic, partition, LATEST_TIMESTAMP)
