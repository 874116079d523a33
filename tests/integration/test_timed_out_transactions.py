"""Java's producer goes on after its transaction has timed out, as with Apache Kafka, whose coordinator aborts it."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import NewTopic

from tests.integration.committed_records import committed_values
from tests.integration.kafka_tools import KafkaTools
from tests.integration.retried_calls import create_topic
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep, pytest.mark.java]

LOGSTORES = 1
TIMEOUT_MS = 1_000
SAID = {
    "write": ["not written: InvalidProducerEpochException", "aborted", "next committed", "epochs 2"],
    "abort": ["aborted", "next committed", "epochs 2"],
    "commit": ["not committed: ProducerFencedException", "not next committed: ProducerFencedException", "epochs 1"],
}
"""What the program says of Kafka 4.4.0 too, but for the commit, which is InvalidTxnStateException there, and
ProducerFencedException in Kafka after it (KAFKA-20785).
"""


@pytest.mark.parametrize("what", SAID)
def test_java_producer_goes_on(cluster: RunningCluster, kafka_tools: KafkaTools, what: str) -> None:
    topic = f"timed-out-{what}"
    create_topic(cluster.bootstrap, NewTopic(topic, num_partitions=1, replication_factor=1))
    said = kafka_tools.output("Transactions", "timeout", cluster.bootstrap, topic, topic, str(TIMEOUT_MS), what)
    assert said.splitlines() == SAID[what]
    committed = [] if what == "commit" else [b"next"]
    assert committed_values(cluster.bootstrap, topic, 1) == [committed]
