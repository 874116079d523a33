"""`transaction.version`: Kafka's feature tool raises and lowers it, and Java's producer follows, whatever is killed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic

from tests.integration.committed_records import committed_values
from tests.integration.kafka_tools import KafkaTools
from tests.integration.retried_calls import committed_offsets, create_topic, end_offset, transaction_coordinator
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.deep]

SECONDS_MAX = 90.0
PARTITIONS = 2
TRANSACTIONS_MAX = 10_000
"""More than a producer ends before it is stopped."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("versions")
    with RunningCluster(directory, logstores=3) as running:
        yield running


def create(cluster: RunningCluster, topic: str) -> None:
    create_topic(cluster.bootstrap, NewTopic(topic, num_partitions=PARTITIONS, replication_factor=3))


def features(tools: KafkaTools, cluster: RunningCluster, *arguments: str) -> str:
    return tools.output("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap, *arguments)


def set_level(tools: KafkaTools, cluster: RunningCluster, command: str, level: int) -> None:
    features(tools, cluster, command, "--feature", f"transaction.version={level}")
    described = features(tools, cluster, "describe")
    assert f"FinalizedVersionLevel: {level}" in described


def described(tools: KafkaTools, cluster: RunningCluster, transactional_id: str) -> dict[str, str]:
    """The line of kafka-transactions about an id, by its columns."""
    asked = ("--bootstrap-server", cluster.bootstrap, "describe", "--transactional-id", transactional_id)
    header, line = tools.output("org.apache.kafka.tools.TransactionsCommand", *asked).splitlines()
    return dict(zip(header.split(), line.split(), strict=False))


def committed(cluster: RunningCluster, topic: str) -> list[list[str]]:
    """The values that a consumer of committed records reads, by partition."""
    return [[value.decode() for value in values] for values in committed_values(cluster.bootstrap, topic, PARTITIONS)]


def wait_for_records(cluster: RunningCluster, topic: str, more: int, running: Future[str]) -> None:
    """Return when partition 0 has grown by so many offsets; the producer that is running has not ended by then."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "watcher"})

    goal, until = end_offset(consumer, topic, 0) + more, time.monotonic() + SECONDS_MAX
    while end_offset(consumer, topic, 0) < goal:
        assert not running.done(), running.result()
        assert time.monotonic() < until, f"{topic} does not grow"
        time.sleep(0.1)
    consumer.close()


def expected(transactional_id: str, count: int) -> list[str]:
    return [f"{transactional_id} {number} commit" for number in range(count) if number % 3 != 1]


def test_the_tool_shows_and_changes_the_level(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    words = features(kafka_tools, cluster, "describe").split()
    assert words[:4] == ["Feature:", "transaction.version", "SupportedMinVersion:", "0"]
    assert words[4:8] == ["SupportedMaxVersion:", "2", "FinalizedVersionLevel:", "2"]
    command = ("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap)
    refused = kafka_tools.run(*command, "upgrade", "--feature", "transaction.version=3")
    assert refused.status == 1
    assert "versions 0-2" in refused.stdout + refused.stderr
    features(kafka_tools, cluster, "downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert "FinalizedVersionLevel: 2" in features(kafka_tools, cluster, "describe")
    set_level(kafka_tools, cluster, "downgrade", 0)
    set_level(kafka_tools, cluster, "upgrade", 2)


@pytest.mark.parametrize(("level", "epochs"), [(0, 1), (2, 12)])
def test_each_transaction_has_an_epoch_at_version_2_alone(
    cluster: RunningCluster, kafka_tools: KafkaTools, level: int, epochs: int
) -> None:
    set_level(kafka_tools, cluster, "upgrade" if level else "downgrade", level)
    topic = f"epochs-{level}"
    create(cluster, topic)
    said = kafka_tools.output("Transactions", "loop", cluster.bootstrap, topic, str(PARTITIONS), topic, "12", "0")
    assert said.splitlines()[-1] == "ended 12, done again 0"
    assert committed(cluster, topic) == [expected(topic, 12)] * PARTITIONS
    assert int(described(kafka_tools, cluster, topic)["ProducerEpoch"]) + 1 >= epochs
    if not level:
        assert described(kafka_tools, cluster, topic)["ProducerEpoch"] == "0"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    assert committed_offsets(consumer, topic, 1) == [12]
    consumer.close()


def test_a_second_producer_fences_the_first(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    create(cluster, "fenced")
    said = kafka_tools.output("Transactions", "fence", cluster.bootstrap, "fenced", "one at a time").splitlines()
    assert said == ["first: ProducerFencedException", "second committed"]
    assert committed(cluster, "fenced")[0] == ["successor"]


def test_the_level_changes_and_the_coordinator_is_killed_while_a_producer_runs(
    cluster: RunningCluster, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    """Its records are there exactly once. It learns of a level when it connects again, so the gateway is restarted."""
    topic, end = "changes", tmp_path / "end"
    create(cluster, topic)
    with KafkaTools() as producers_jvm, ThreadPoolExecutor(1) as pool:
        arguments = ("loop", cluster.bootstrap, topic, str(PARTITIONS), topic, str(TRANSACTIONS_MAX), "150", str(end))
        running = pool.submit(producers_jvm.output, "Transactions", *arguments)
        try:
            wait_for_records(cluster, topic, 10, running)
            cluster.kill(f"logstore-{transaction_coordinator(cluster.bootstrap, topic)}")
            cluster.up()
            wait_for_records(cluster, topic, 10, running)
            for command, level in (("downgrade", 0), ("upgrade", 2)):
                set_level(kafka_tools, cluster, command, level)
                cluster.stop("gateway")
                cluster.up()
                wait_for_records(cluster, topic, 10, running)
        finally:
            end.touch()
        said = running.result(3 * SECONDS_MAX).splitlines()
    ended = re.match(r"ended (\d+), ", said[-1])
    assert ended is not None, said
    count = int(ended[1])
    assert count < TRANSACTIONS_MAX
    assert committed(cluster, topic) == [expected(topic, count)] * PARTITIONS
    assert int(described(kafka_tools, cluster, topic)["ProducerEpoch"]) > 10
