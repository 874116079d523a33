"""Apache Kafka 4.4 starts on a log directory in which Barnabas has left transactions: committed, aborted, and one open.

Kafka's own tool says the same of both, a consumer of committed records reads the same of both, and a producer goes on:
Kafka's coordinator has read our `__transaction_state`, ends the open transaction, and begins the next.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas_logstore.core.storage import checkpoints
from barnabas_logstore.core.storage.checkpoints import DirectoryIdentity
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from tests.integration.committed_records import committed_values
from tests.integration.etcd_process import needs_etcd
from tests.integration.kafka_broker import KafkaBroker, OldPartition
from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.java,
    needs_etcd,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.deep,
]

TOPIC = "orders"
PARTITIONS = 2
SECONDS_MAX = 60.0
STATE_COLUMNS = ("TransactionalId", "ProducerId", "TransactionState")
DESCRIBED_COLUMNS = ("ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs", "TopicPartitions")
PRODUCER_COLUMNS = ("ProducerId", "ProducerEpoch", "LastSequence", "LastTimestamp", "CurrentTransactionStartOffset")

REFUSED = "ListTransactions request sent to broker 0 failed with an unexpected exception"
"""What kafka-transactions prints of INVALID_REGULAR_EXPRESSION."""
PATTERNS = {
    ".*": ["javas", "librdkafkas", "open"],
    "java": [],
    "java.": ["javas"],
    "(?i)(JAVA|librdkafka)s": ["javas", "librdkafkas"],
    r"\w{4}": ["open"],
    "(java": REFUSED,
    "(?=java)javas": REFUSED,
    r"\C*": REFUSED,
}
"""Patterns of ids, and those of `left` that match."""

Lines = list[dict[str, str]]


@dataclass(slots=True, frozen=True)
class Said:
    """What Kafka's tool says of a broker's transactions."""

    listed: Lines
    described: dict[str, dict[str, str]]
    producers: dict[int, Lines]
    """By partition of TOPIC."""


@dataclass(slots=True, frozen=True)
class Left:
    """The directory, and what was seen before Barnabas was stopped."""

    path: Path
    identity: DirectoryIdentity
    partitions: list[OldPartition]
    committed: list[list[bytes]]
    said: Said


def transactions(tools: KafkaTools, bootstrap: str, *arguments: str) -> Lines:
    command = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap)
    header, *lines = tools.output(*command, *arguments).splitlines() or [""]
    return [dict(zip(header.split(), line.split(), strict=False)) for line in lines]


def only(lines: Lines, columns: tuple[str, ...]) -> Lines:
    """Sorted; the rest of what the tool says is about the broker or the time."""
    assert all(each.keys() >= set(columns) for each in lines), lines
    return sorted(
        ({column: each[column] for column in columns} for each in lines), key=lambda each: sorted(each.items())
    )


def ask(tools: KafkaTools, bootstrap: str) -> Said:
    listed = only(transactions(tools, bootstrap, "list"), STATE_COLUMNS)
    described = {}
    for each in listed:
        name = each["TransactionalId"]
        (line,) = transactions(tools, bootstrap, "describe", "--transactional-id", name)
        (described[name],) = only([line], DESCRIBED_COLUMNS if line.get("TopicPartitions") else DESCRIBED_COLUMNS[:-1])
    producers = {
        partition: only(
            transactions(tools, bootstrap, "describe-producers", "--topic", TOPIC, "--partition", str(partition)),
            PRODUCER_COLUMNS,
        )
        for partition in range(PARTITIONS)
    }
    return Said(listed, described, producers)


def matching(tools: KafkaTools, bootstrap: str) -> dict[str, list[str] | str]:
    """The ids that kafka-transactions lists for each pattern, or the error that it reports."""
    found: dict[str, list[str] | str] = {}
    for pattern in PATTERNS:
        asked = ("--bootstrap-server", bootstrap, "list", "--transactional-id-pattern", pattern)
        done = tools.run("org.apache.kafka.tools.TransactionsCommand", *asked)
        if done.status:
            said = done.stdout + done.stderr
            found[pattern] = REFUSED if REFUSED in said else said
        else:
            found[pattern] = sorted(line.split()[0] for line in done.stdout.splitlines()[1:])
    return found


def wait_until_loaded(tools: KafkaTools, bootstrap: str, count: int) -> None:
    """A coordinator that has not begun to read its partitions knows of nothing, and says so."""
    until = time.monotonic() + SECONDS_MAX
    while len(found := transactions(tools, bootstrap, "list")) < count:
        assert time.monotonic() < until, found


def committed(bootstrap: str) -> list[list[bytes]]:
    """The values up to the last stable offset, by partition."""
    return committed_values(bootstrap, TOPIC, PARTITIONS)


def produce(bootstrap: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, value, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


def produce_transactions(bootstrap: str) -> None:
    """librdkafka's, of version 1: one that commits, one that aborts."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "librdkafkas"})
    producer.init_transactions(SECONDS_MAX)
    for value in (b"committed", b"aborted"):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, value, partition=partition)
        assert producer.flush(SECONDS_MAX) == 0
        if value == b"committed":
            producer.commit_transaction(SECONDS_MAX)
        else:
            producer.abort_transaction(SECONDS_MAX)


def old_partitions(path: Path) -> list[OldPartition]:
    """Those of TOPIC and of `__transaction_state`, as their directories say."""
    found = []
    for directory in sorted(path.iterdir()):
        name = re.fullmatch(rf"({TOPIC}|{TRANSACTION_STATE_TOPIC})-(\d+)", directory.name)
        if name is None:
            continue
        topic_id = checkpoints.parse_partition_metadata((directory / "partition.metadata").read_bytes())
        assert topic_id is not None
        checkpoint = directory / "leader-epoch-checkpoint"
        epochs = LeaderEpochs.parse(checkpoint.read_bytes()) if checkpoint.exists() else None
        entries = epochs.entries() if epochs is not None else []
        found.append(OldPartition(name[1], topic_id, int(name[2]), entries[-1][0] if entries else 0))
    return found


@pytest.fixture(scope="module")
def left(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Left:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        new = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        admin.create_topics([new], operation_timeout=SECONDS_MAX)[TOPIC].result(SECONDS_MAX)
        produce_transactions(cluster.bootstrap)
        # Java's, of version 2: every third is aborted.
        said = kafka_tools.output("Transactions", "loop", cluster.bootstrap, TOPIC, str(PARTITIONS), "javas", "6", "0")
        assert said.splitlines()[-1] == "ended 6, done again 0"
        produce(cluster.bootstrap, b"before")
        said = kafka_tools.output("Transactions", "hang", cluster.bootstrap, TOPIC, "open", "600000")
        assert said.splitlines() == ["left open"]
        produce(cluster.bootstrap, b"behind")
        assert matching(kafka_tools, cluster.bootstrap) == PATTERNS
        seen = committed(cluster.bootstrap), ask(kafka_tools, cluster.bootstrap)
        cluster.stop("logstore-0")
        path = shutil.copytree(cluster.directory.logstore_path(0), tmp_path_factory.mktemp("left") / "copy")
    identity = checkpoints.parse_meta_properties((path / "meta.properties").read_bytes())
    assert identity is not None
    return Left(path, identity, old_partitions(path), *seen)


def test_kafka_goes_on_with_the_transactions_that_barnabas_left(
    kafka_tools: KafkaTools, left: Left, tmp_path: Path
) -> None:
    states = {each["TransactionalId"]: each["TransactionState"] for each in left.said.listed}
    assert states == {"librdkafkas": "CompleteAbort", "javas": "CompleteCommit", "open": "Ongoing"}
    javas = [f"javas {number} commit".encode() for number in (0, 2, 3, 5)]
    assert left.committed == [[b"committed", *javas, b"before"], [b"committed", *javas, b"before", b"behind"]]

    count = sum(each.topic == TRANSACTION_STATE_TOPIC for each in left.partitions)
    broker = KafkaBroker(
        kafka_tools,
        tmp_path / "kafka",
        left.path,
        left.identity,
        left.partitions,
        transaction_state_log_num_partitions=str(count),
    )
    try:
        broker.start()
        wait_until_loaded(kafka_tools, broker.bootstrap, len(states))
        assert ask(kafka_tools, broker.bootstrap) == left.said
        assert matching(kafka_tools, broker.bootstrap) == PATTERNS
        assert committed(broker.bootstrap) == left.committed
        hanging = ("find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0")
        assert transactions(kafka_tools, broker.bootstrap, *hanging) == [], "its coordinator knows the open one"
        said = kafka_tools.output("Transactions", "loop", broker.bootstrap, TOPIC, str(PARTITIONS), "open", "1", "0")
        assert said.splitlines()[-1] == "ended 1, done again 0"
        next_one = b"open 0 commit"
        assert committed(broker.bootstrap) == [
            [*left.committed[0], b"behind", next_one],
            [*left.committed[1], next_one],
        ]
    finally:
        broker.stop()
    assert [line for line in broker.said() if TRANSACTION_STATE_TOPIC in line and "ERROR" in line] == []
