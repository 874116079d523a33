"""Kafka's own tools and Admin client on a running cluster, and its consumer with thousands of partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.integration.kafka_clients import Confluent
from tests.integration.kafka_tools import KafkaTools

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.deep]

LOGSTORES = 2
PARTITIONS = 2_000
TOPIC = "many-partitions"


@pytest.fixture(scope="module")
def said(kafka_tools: KafkaTools, bootstrap: str) -> list[str]:
    """What the Java program says."""
    return kafka_tools.output("ManyPartitions", bootstrap, str(PARTITIONS)).splitlines()


def tool(tools: KafkaTools, name: str, *arguments: str) -> list[str]:
    """The lines that a tool of `org.apache.kafka.tools` prints."""
    return tools.output(f"org.apache.kafka.tools.{name}", *arguments).splitlines()


@pytest.mark.parametrize(
    "line",
    [
        f"described {PARTITIONS}",
        f"consumed {2 * PARTITIONS}",
        "trickle ok",
        "reassigned ok",
        "validated true",
        "deleted to 1, beginning 1",
    ],
)
def test_thousands_of_partitions_in_one_session(said: list[str], line: str) -> None:
    assert line in said


def test_get_offsets(kafka_tools: KafkaTools, bootstrap: str, said: list[str]) -> None:
    lines = tool(kafka_tools, "GetOffsetShell", "--bootstrap-server", bootstrap, "--topic-partitions", f"{TOPIC}:40-43")
    assert [line for line in lines if line.startswith(TOPIC)] == [
        f"{TOPIC}:{partition}:2" for partition in (40, 41, 42)
    ]


def test_delete_records(kafka_tools: KafkaTools, bootstrap: str, said: list[str], tmp_path: Path) -> None:
    offsets = tmp_path / "offsets.json"
    places = [{"topic": TOPIC, "partition": 50, "offset": 1}, {"topic": TOPIC, "partition": 51, "offset": -1}]
    offsets.write_text(json.dumps({"version": 1, "partitions": places}))
    lines = tool(
        kafka_tools, "DeleteRecordsCommand", "--bootstrap-server", bootstrap, "--offset-json-file", str(offsets)
    )
    assert f"partition: {TOPIC}-50\tlow_watermark: 1" in lines
    assert f"partition: {TOPIC}-51\tlow_watermark: 2" in lines
    earliest = ["--topic-partitions", f"{TOPIC}:50-52", "--time", "earliest"]
    lines = tool(kafka_tools, "GetOffsetShell", "--bootstrap-server", bootstrap, *earliest)
    assert [line for line in lines if line.startswith(TOPIC)] == [f"{TOPIC}:50:1", f"{TOPIC}:51:2"]


def test_describe_producers(kafka_tools: KafkaTools, bootstrap: str, said: list[str]) -> None:
    described = ["describe-producers", "--topic", TOPIC, "--partition", "0"]
    header, producer = tool(kafka_tools, "TransactionsCommand", "--bootstrap-server", bootstrap, *described)
    columns = dict(zip(header.split(), producer.split(), strict=True))
    assert columns["ProducerEpoch"] == "0"
    assert int(columns["LastSequence"]) >= 2
    assert columns["CurrentTransactionStartOffset"] == "None"


def test_log_dirs(kafka_tools: KafkaTools, bootstrap: str, said: list[str]) -> None:
    """Each broker is asked at its own port, and tells its own directory with its own replicas."""
    *_, described = tool(
        kafka_tools, "LogDirsCommand", "--bootstrap-server", bootstrap, "--describe", "--topic-list", TOPIC
    )
    brokers = {broker["broker"]: broker["logDirs"] for broker in json.loads(described)["brokers"]}
    assert len(brokers) == LOGSTORES
    replicas = []
    for log_dirs in brokers.values():
        (log_dir,) = log_dirs
        assert (log_dir["error"], Path(log_dir["logDir"]).is_absolute()) == (None, True)
        assert all(replica["size"] > 0 and replica["offsetLag"] == 0 for replica in log_dir["partitions"])
        replicas += [replica["partition"] for replica in log_dir["partitions"]]
    assert sorted(replicas) == sorted(f"{TOPIC}-{partition}" for partition in range(PARTITIONS))


# --- kafka-consumer-groups -------------------------------------------------------------------------------------------

READ, READING = "java-tools-read", "java-tools-reading"
"""Groups: one that is empty, one with a member."""
READ_TOPIC = "java-tools-groups"
RECORDS = 30


def member_of(bootstrap: str, group_id: str) -> Consumer:
    """That has read and committed everything."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "auto.offset.reset": "earliest"})
    consumer.subscribe([READ_TOPIC])
    values: list[bytes | None] = []
    while len(values) < RECORDS:
        values += [message.value() for message in consumer.consume(RECORDS, timeout=1.0)]
    consumer.commit(asynchronous=False)
    return consumer


@pytest.fixture(scope="module")
def groups(bootstrap: str) -> Iterator[None]:
    Confluent(bootstrap).create_topic(READ_TOPIC, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(READ_TOPIC, b"%d" % number)
    assert producer.flush(30) == 0
    member_of(bootstrap, READ).close()
    reading = member_of(bootstrap, READING)
    yield
    reading.close()


def consumer_groups(kafka_tools: KafkaTools, bootstrap: str, *arguments: str) -> list[list[str]]:
    """The words of each line that is not empty."""
    lines = tool(kafka_tools, "consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap, *arguments)
    return [line.split() for line in lines if line.strip()]


def test_groups_are_listed_with_their_states(kafka_tools: KafkaTools, bootstrap: str, groups: None) -> None:
    listed = consumer_groups(kafka_tools, bootstrap, "--list", "--state")
    assert [READ, "Empty"] in listed
    assert [READING, "Stable"] in listed


def test_groups_are_described(kafka_tools: KafkaTools, bootstrap: str, groups: None) -> None:
    offsets = consumer_groups(kafka_tools, bootstrap, "--describe", "--group", READ)
    assert [READ, READ_TOPIC, "0", f"{RECORDS}", f"{RECORDS}", "0", "-", "-", "-"] in offsets
    _, state = consumer_groups(kafka_tools, bootstrap, "--describe", "--group", READING, "--state")
    assert (state[0], state[-2:]) == (READING, ["Stable", "1"])
    members = consumer_groups(kafka_tools, bootstrap, "--describe", "--group", READING, "--members", "--verbose")
    assert f"{READ_TOPIC}:0" in members[1]


def test_offsets_are_reset_and_deleted(kafka_tools: KafkaTools, bootstrap: str, groups: None) -> None:
    def reset(group_id: str, *how: str) -> list[list[str]]:
        return consumer_groups(
            kafka_tools, bootstrap, "--reset-offsets", "--group", group_id, "--topic", READ_TOPIC, *how, "--execute"
        )

    assert [READ, READ_TOPIC, "0", "10"] in reset(READ, "--to-offset", "10")
    assert [READ, READ_TOPIC, "0", "7"] in reset(READ, "--shift-by", "-3")
    described = consumer_groups(kafka_tools, bootstrap, "--describe", "--group", READ)
    assert [READ, READ_TOPIC, "0", "7", f"{RECORDS}", f"{RECORDS - 7}", "-", "-", "-"] in described
    assert any("can only be reset if the group" in " ".join(words) for words in reset(READING, "--to-earliest"))
    deleted = consumer_groups(kafka_tools, bootstrap, "--delete-offsets", "--group", READ, "--topic", READ_TOPIC)
    assert [READ_TOPIC, "0", "Successful"] in deleted


def test_only_empty_groups_are_deleted(kafka_tools: KafkaTools, bootstrap: str, groups: None) -> None:
    member_of(bootstrap, "java-tools-gone").close()
    reported = consumer_groups(kafka_tools, bootstrap, "--delete", "--group", "java-tools-gone", "--group", READING)
    assert any("GroupNotEmptyException" in " ".join(words) for words in reported)
    listed = consumer_groups(kafka_tools, bootstrap, "--list")
    assert ["java-tools-gone"] not in listed
    assert [READING] in listed
