"""A transaction that no coordinator knows any more: Kafka's tool finds it and aborts it, and consumers go on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas_cli.local import status
from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(400), pytest.mark.deep]

SECONDS_MAX = 60.0
TOPIC = "held-up"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("hanging")
    with RunningCluster(directory, logstores=2) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        new = NewTopic(TOPIC, num_partitions=1, replication_factor=2)
        admin.create_topics([new], operation_timeout=SECONDS_MAX)[TOPIC].result(SECONDS_MAX)
        yield running


def transactions(tools: KafkaTools, cluster: RunningCluster, *arguments: str) -> list[dict[str, str]]:
    """The lines of kafka-transactions by their columns."""
    command = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", cluster.bootstrap)
    header, *lines = tools.output(*command, *arguments).splitlines() or [""]
    return [dict(zip(header.split(), line.split(), strict=False)) for line in lines]


def hang(tools: KafkaTools, cluster: RunningCluster) -> None:
    """Leave a transaction open, and forget what its coordinator knows."""
    said = tools.output("Transactions", "hang", cluster.bootstrap, TOPIC, "lost", "600000")
    assert said.splitlines() == ["left open"]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    deleted = admin.delete_topics([TRANSACTION_STATE_TOPIC], operation_timeout=SECONDS_MAX)
    deleted[TRANSACTION_STATE_TOPIC].result(SECONDS_MAX)


def read(cluster: RunningCluster, count: int, *, seconds: float) -> list[bytes | None]:
    """The committed records, up to so many; fewer if they do not come in time."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes | None] = []
    until = time.monotonic() + seconds
    while len(values) < count and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None
            values.append(message.value())
    consumer.close()
    return values


def barnabas(cluster: RunningCluster, *arguments: str) -> str:
    """What `barnabas transactions` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "barnabas_cli", "transactions", *arguments, "--bootstrap", cluster.bootstrap],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def hanging_problems(cluster: RunningCluster) -> list[str]:
    return [each for each in cluster.status().problems if "hangs" in each]


def test_a_hanging_transaction_is_found_and_aborted(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    hang(kafka_tools, cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(TOPIC, b"behind it")
    assert producer.flush(SECONDS_MAX) == 0
    assert read(cluster, 1, seconds=3) == []

    (described,) = transactions(kafka_tools, cluster, "describe-producers", "--topic", TOPIC, "--partition", "0")
    assert described["CurrentTransactionStartOffset"] == "0"
    # It asks about transactional ids, so there has to be a coordinator again.
    said = kafka_tools.output("Transactions", "loop", cluster.bootstrap, TOPIC, "1", "another", "1", "0")
    assert said.splitlines()[-1] == "ended 1, done again 0"
    found = transactions(kafka_tools, cluster, "find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0")
    assert [(each["Topic"], each["Partition"], each["StartOffset"]) for each in found] == [(TOPIC, "0", "0")]
    assert found[0]["ProducerId"] == described["ProducerId"]

    transactions(kafka_tools, cluster, "abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "0")
    assert read(cluster, 2, seconds=SECONDS_MAX) == [b"behind it", b"another 0 commit"]
    after = transactions(kafka_tools, cluster, "describe-producers", "--topic", TOPIC, "--partition", "0")
    by_id = {each["ProducerId"]: each for each in after}
    assert by_id[described["ProducerId"]]["CurrentTransactionStartOffset"] == "None"
    assert not transactions(kafka_tools, cluster, "find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0")


def test_so_does_our_own_command_and_status_says_what_to_do(
    cluster: RunningCluster, kafka_tools: KafkaTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(kafka_tools, cluster)
    said = kafka_tools.output("Transactions", "loop", cluster.bootstrap, TOPIC, "1", "third", "2", "0")
    assert said.splitlines()[-1] == "ended 2, done again 0"
    assert json.loads(barnabas(cluster, "find-hanging", "--json")) == [], "it may not be that old"
    assert hanging_problems(cluster) == []
    (found,) = json.loads(barnabas(cluster, "find-hanging", "--max-transaction-timeout", "0", "--json"))
    assert (found["topic"], found["partition"], found["transactional_id"]) == (TOPIC, 0, None)
    place = (TOPIC, "0", str(found["start_offset"]))
    monkeypatch.setattr(status, "HANGING_SILENT_MS", 0)
    (problem,) = hanging_problems(cluster)
    assert f"`barnabas transactions abort {' '.join(place)}`" in problem
    assert not cluster.status().healthy

    (listed,) = json.loads(barnabas(cluster, "list", "--state", "CompleteAbort", "--json"))
    assert listed["transactional_id"] == "third"
    assert barnabas(cluster, "describe", "third").startswith("third  CompleteAbort, producer ")
    assert barnabas(cluster, "list", "--state", "Ongoing") == "no transactional ids\n"

    before = len(read(cluster, 100, seconds=3))
    assert f"in {TOPIC}-0" in barnabas(cluster, "abort", *place)
    assert len(read(cluster, before + 1, seconds=SECONDS_MAX)) == before + 1, "the first of `third` is committed"
    assert barnabas(cluster, "find-hanging", "--max-transaction-timeout", "0") == "no hanging transactions\n"
    assert hanging_problems(cluster) == []
