"""Kafka's own programs for its system tests of transactions, against three logstores: what they copy is there once.

Copiers move a topic in transactions, with the offsets of what they read, while logstores are killed; as Kafka's
`transactions_test.py` has it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic

from tests.compat.java_programs import SHORT_LIVED
from tests.integration.committed_records import committed_values
from tests.integration.kafka_tools import KafkaTools, kafka_libs
from tests.integration.retried_calls import committed_offsets, create_topic, end_offset
from tests.integration.running_cluster import RunningCluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.deep,
]

SECONDS_MAX = 90.0
PARTITIONS = 2
MESSAGES = 4_000
RECORDS = 3_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("copiers")
    with RunningCluster(directory, logstores=3) as running:
        yield running


def create(cluster: RunningCluster, topic: str) -> None:
    create_topic(cluster.bootstrap, NewTopic(topic, PARTITIONS, 3, config={"min.insync.replicas": "2"}))


def committed(cluster: RunningCluster, topic: str) -> list[list[bytes]]:
    """The values that a consumer of committed records reads, by partition."""
    return committed_values(cluster.bootstrap, topic, PARTITIONS)


def end_of(cluster: RunningCluster, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "watcher"})
    try:
        return end_offset(consumer, topic, partition)
    finally:
        consumer.close()


def test_producer_performance_with_transactions(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    create(cluster, "performance")
    said = kafka_tools.output(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", cluster.bootstrap, "--topic", "performance", "--num-records", str(RECORDS)),
        *("--record-size", "100", "--throughput", "1000", "--transaction-duration-ms", "200"),
    )
    assert re.search(rf"^{RECORDS} records sent", said, re.MULTILINE), said
    assert sum(map(len, committed(cluster, "performance"))) == RECORDS
    ends = [end_of(cluster, "performance", each) for each in range(PARTITIONS)]
    assert sum(ends) - RECORDS >= 2 * PARTITIONS, "there are markers of several transactions"


@pytest.mark.parametrize("aborts", [False, True], ids=["commits", "random aborts"])
def test_what_is_copied_is_there_once_while_logstores_are_killed(cluster: RunningCluster, aborts: bool) -> None:
    source, target = f"source-{aborts}", f"target-{aborts}"
    create(cluster, source)
    create(cluster, target)
    said = _run(
        "VerifiableProducer",
        *("--topic", source, "--bootstrap-server", cluster.bootstrap, "--max-messages", str(MESSAGES)),
        *("--repeating-keys", "16"),
    )
    assert said[-1]["name"] == "tool_data"
    assert said[-1]["acked"] == MESSAGES
    sent = committed(cluster, source)
    assert all(sent), "keys are in both partitions"
    assert sorted(int(value) for values in sent for value in values) == list(range(MESSAGES))

    with ThreadPoolExecutor(PARTITIONS) as pool:
        copiers = [pool.submit(_copy, cluster, source, target, partition, aborts) for partition in range(PARTITIONS)]
        kills = 0
        for number in range(3):
            grown = _wait_until_grown(cluster, target, copiers)
            if not grown:
                break
            cluster.kill(f"logstore-{number}")
            cluster.up()
            kills += 1
        remaining = [each.result(3 * SECONDS_MAX) for each in copiers]
    assert kills >= 1
    assert remaining == [0] * PARTITIONS
    copied = committed(cluster, target)
    counts = Counter(value for values in copied for value in values)
    assert [value for value, count in counts.items() if count > 1][:5] == []
    assert counts.keys() == {value for values in sent for value in values}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"copiers-{aborts}"})
    assert committed_offsets(consumer, source, PARTITIONS) == [len(values) for values in sent]
    consumer.close()


def _run(tool: str, *arguments: str) -> list[dict[str, Any]]:
    """Run one of Kafka's tools in a JVM of its own, whose end it reports: return the JSON that it prints, by lines."""
    java = shutil.which("java")
    assert java is not None
    command = [java, "-cp", f"{kafka_libs()}/*", *SHORT_LIVED, f"org.apache.kafka.tools.{tool}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * SECONDS_MAX)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _copy(cluster: RunningCluster, source: str, target: str, partition: int, aborts: bool) -> int:
    """Copy one partition to its end. Return what the copier says is left of it."""
    said = _run(
        "TransactionalMessageCopier",
        *("--broker-list", cluster.bootstrap, "--input-topic", source, "--input-partition", str(partition)),
        *("--output-topic", target, "--consumer-group", f"copiers-{aborts}", "--use-group-metadata"),
        *("--transactional-id", f"copier-{aborts}-{partition}", "--transaction-size", "10"),
        *(("--enable-random-aborts",) if aborts else ()),
    )
    assert said[-1]["stage"] == "ShutdownComplete"
    return int(said[-1]["remaining"])


def _wait_until_grown(cluster: RunningCluster, topic: str, copiers: list[Future[int]]) -> bool:
    """Return once partition 0 has 50 offsets more; False if all copiers have ended before."""
    goal, until = end_of(cluster, topic, 0) + 50, time.monotonic() + SECONDS_MAX
    while end_of(cluster, topic, 0) < goal:
        if all(each.done() for each in copiers):
            return False
        assert time.monotonic() < until, f"{topic} does not grow"
        time.sleep(0.02)
    return True
