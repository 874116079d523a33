"""Configs and new partitions by the tools and Admin clients of others, unchanged; and what comes of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.cluster.topic_config_keys import TOPIC_KEYS
from tests.integration.kafka_clients import SECONDS_MAX, Confluent, Mode
from tests.integration.kafka_tools import KafkaTools
from tests.integration.retried_calls import retried
from tests.integration.running_cluster import RunningCluster

# Of other people's clients.
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.deep]

LOGSTORES = 2
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"

Tool = Callable[..., str]


def new_name() -> str:
    return f"configs-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def tool(kafka_tools: KafkaTools, bootstrap: str) -> Tool:
    """One of Kafka's command line tools: what it writes, errors included."""

    def run(name: str, *arguments: str) -> str:
        done = kafka_tools.run(name, "--bootstrap-server", bootstrap, *arguments)
        return done.stdout + done.stderr

    return run


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = new_name()
    Confluent(bootstrap).create_topic(name, 2)
    return name


# --- Kafka's tools ---


@pytest.mark.java
def test_kafka_configs_alters_and_describes_a_topic(tool: Tool, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    said = tool(CONFIGS, "--alter", *entity, "--add-config", "cleanup.policy=[compact,delete],flush.ms=5000")
    assert f"Completed updating config for topic {topic}." in said
    described = tool(CONFIGS, "--describe", *entity)
    assert "flush.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:flush.ms=5000, DEFAULT_CONFIG:" in described
    assert "cleanup.policy=compact,delete sensitive=false" in described
    assert "retention.ms" not in described
    assert "Completed updating" in tool(CONFIGS, "--alter", *entity, "--delete-config", "cleanup.policy")
    everything = tool(CONFIGS, "--describe", *entity, "--all")
    assert "cleanup.policy=delete sensitive=false synonyms={DEFAULT_CONFIG:log.cleanup.policy=delete}" in everything
    assert "flush.ms=5000" in everything
    assert len([line for line in everything.splitlines() if "sensitive=false" in line]) == len(TOPIC_KEYS)
    lag = "remote.copy.lag.ms=0 sensitive=false synonyms={DEFAULT_CONFIG:log.remote.copy.lag.ms=0}"
    assert lag in everything


@pytest.mark.java
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("topics", "{topic}", "nonsense=1"), "InvalidConfigurationException: Unknown topic config name: nonsense"),
        (
            ("topics", "{topic}", "retention.ms=soon"),
            "InvalidConfigurationException: Invalid value soon for configuration retention.ms: "
            "Not a number of type LONG",
        ),
        (("topics", "nobody", "flush.ms=1"), "UnknownTopicOrPartitionException: The topic 'nobody' does not exist."),
        (
            ("brokers", "1", "node.id=3"),
            "InvalidRequestException: Cannot update these configs dynamically: [node.id]",
        ),
        (("brokers", "1", "log.segment.bytes=1"), "Value must be at least 1048576"),
        (("client-metrics", "x", "interval.ms=1000"), "InvalidRequestException: Client metrics are not supported."),
    ],
)
def test_kafka_configs_says_what_is_wrong(tool: Tool, topic: str, arguments: tuple[str, ...], complaint: str) -> None:
    kind, name, change = (each.format(topic=topic) for each in arguments)
    assert complaint in tool(CONFIGS, "--alter", "--entity-type", kind, "--entity-name", name, "--add-config", change)


@pytest.mark.java
def test_kafka_configs_alters_and_describes_brokers(tool: Tool, topic: str) -> None:
    every, first = ("--entity-type", "brokers", "--entity-default"), ("--entity-type", "brokers", "--entity-name", "0")
    said = tool(CONFIGS, "--alter", *every, "--add-config", "log.index.interval.bytes=8192")
    assert "Completed updating default config for brokers in the cluster." in said
    assert "Completed updating" in tool(CONFIGS, "--alter", *first, "--add-config", "log.index.interval.bytes=1024")
    line = "log.index.interval.bytes=8192 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:"
    assert line in tool(CONFIGS, "--describe", *every)
    assert "log.index.interval.bytes=1024 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:" in tool(
        CONFIGS, "--describe", *first
    )
    everything = tool(CONFIGS, "--describe", *first, "--all")
    for key in ("node.id=0", "num.network.threads=", "num.io.threads=8", "listeners=PLAINTEXT://127.0.0.1:"):
        assert key in everything
    both = tool(CONFIGS, "--describe", "--entity-type", "brokers")
    assert "Dynamic configs for broker 1 are:" in both
    for entity in (every, first):
        assert "Completed updating" in tool(CONFIGS, "--alter", *entity, "--delete-config", "log.index.interval.bytes")
    assert "log.index.interval.bytes" not in tool(CONFIGS, "--describe", *every)


@pytest.mark.java
def test_kafka_configs_shows_and_changes_the_levels_of_loggers(tool: Tool, cluster: RunningCluster) -> None:
    entity = ("--entity-type", "broker-loggers", "--entity-name", "1")
    log = cluster.directory.log_path("logstore-1")
    event = "levels of loggers changed"
    described = tool(CONFIGS, "--describe", *entity)
    for logger in ("root", "logstore", "logstore.control", "streams"):
        assert f"{logger}=INFO sensitive=false synonyms={{}}" in described
    assert "Completed updating" in tool(CONFIGS, "--alter", *entity, "--add-config", "logstore=WARN,streams=DEBUG")
    described = tool(CONFIGS, "--describe", *entity)
    for level in ("root=INFO", "logstore=WARN", "logstore.links=WARN", "streams=DEBUG"):
        assert f"{level} sensitive=false" in described
    assert "logstore=INFO" in tool(CONFIGS, "--describe", *entity[:3], "0")
    # The line would be the logger's whose level is too high for it.
    assert event not in log.read_text()
    assert "Completed updating" in tool(CONFIGS, "--alter", *entity, "--delete-config", "logstore,streams")
    assert "logstore=INFO" in tool(CONFIGS, "--describe", *entity)
    assert log.read_text().count(event) == 1


@pytest.mark.java
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("1", "--add-config", "absent=DEBUG"), "Invalid broker logger(s): absent"),
        (("1", "--add-config", "logstore=LOUD"), "Cannot set the log level of logstore to LOUD as it is not a"),
        (("1", "--delete-config", "root"), "Removing the log level of the root logger is not allowed"),
    ],
)
def test_kafka_configs_says_what_is_wrong_with_levels(tool: Tool, arguments: tuple[str, ...], complaint: str) -> None:
    name, *change = arguments
    assert complaint in tool(CONFIGS, "--alter", "--entity-type", "broker-loggers", "--entity-name", name, *change)


@pytest.mark.java
def test_kafka_topics_creates_with_configs_grows_and_describes(tool: Tool) -> None:
    name = new_name()
    create = ("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=1000")
    assert f"Created topic {name}." in tool(TOPICS, *create)
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=1000" in tool(
        TOPICS, "--describe", "--topic", name
    )
    assert tool(TOPICS, "--alter", "--topic", name, "--partitions", "5").strip() == ""
    described = tool(TOPICS, "--describe", "--topic", name)
    assert "PartitionCount: 5" in described
    assert len([line for line in described.splitlines() if "Leader: 0" in line or "Leader: 1" in line]) == 5
    assert "Topic already has 5 partition(s)." in tool(TOPICS, "--alter", "--topic", name, "--partitions", "5")
    assert f"The topic {name} currently has 5 partition(s); 3 would not be an increase." in tool(
        TOPICS, "--alter", "--topic", name, "--partitions", "3"
    )


# --- librdkafka ---


@pytest.fixture
def admin(bootstrap: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap})


def described(admin: Any, kind: str, name: str) -> dict[str, Any]:
    from confluent_kafka.admin._config import ConfigResource

    resource = ConfigResource(kind, name)
    configs: dict[str, Any] = admin.describe_configs([resource])[resource].result(timeout=SECONDS_MAX)
    return configs


def alter(admin: Any, kind: str, name: str, operation: str, key: str, value: str | None) -> None:
    from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType[operation])
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=SECONDS_MAX)


def test_librdkafka_changes_configs_one_by_one(admin: Any, topic: str) -> None:
    alter(admin, "topic", topic, "SET", "retention.ms", "7777")
    alter(admin, "topic", topic, "APPEND", "cleanup.policy", "compact")
    configs = described(admin, "topic", topic)
    assert (configs["retention.ms"].value, configs["cleanup.policy"].value) == ("7777", "delete,compact")
    assert not configs["retention.ms"].is_default
    assert configs["segment.ms"].is_default
    alter(admin, "topic", topic, "SUBTRACT", "cleanup.policy", "delete")
    alter(admin, "topic", topic, "DELETE", "retention.ms", None)
    configs = described(admin, "topic", topic)
    assert (configs["retention.ms"].value, configs["cleanup.policy"].value) == ("604800000", "compact")


def test_librdkafka_replaces_configs(admin: Any, topic: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource

    alter(admin, "topic", topic, "SET", "retention.ms", "7777")
    resource = ConfigResource("topic", topic, set_config={"flush.ms": "5"})
    admin.alter_configs([resource])[resource].result(timeout=SECONDS_MAX)
    configs = described(admin, "topic", topic)
    assert (configs["flush.ms"].value, configs["retention.ms"].value) == ("5", "604800000")
    wrong = ConfigResource("topic", topic, set_config={"flush.ms": "-5"})
    with pytest.raises(KafkaException, match=r"Invalid value -5 for configuration flush\.ms"):
        admin.alter_configs([wrong])[wrong].result(timeout=SECONDS_MAX)


def test_librdkafka_describes_brokers(admin: Any) -> None:
    configs = described(admin, "broker", "1")
    assert (configs["node.id"].value, configs["node.id"].is_read_only) == ("1", True)
    assert not configs["log.retention.ms"].is_read_only


def test_a_producer_goes_on_while_its_topic_grows(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.cimpl import NewPartitions

    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "topic.metadata.refresh.interval.ms": 100}
    )
    partitions: list[int] = []
    errors: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        (errors if error else partitions).append(error or message.partition())

    for count in (2, 3, 8, 600):
        if count > 2:
            admin.create_partitions([NewPartitions(topic, count)])[topic].result(timeout=SECONDS_MAX)
        for number in range(500):
            producer.produce(topic, key=str(number).encode(), value=b"x", on_delivery=delivered)
            producer.poll(0.001)
    producer.flush(SECONDS_MAX)
    assert errors == []
    assert len(partitions) == 2000
    assert max(partitions) > 7
    assert len(admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions) == 600


def test_a_partition_that_is_new_takes_records_at_once(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka.cimpl import NewPartitions

    admin.create_partitions([NewPartitions(topic, 4, [[1], [0]])])[topic].result(timeout=SECONDS_MAX)
    client = Confluent(bootstrap)
    client.produce(topic, 3, [b"a", b"b"], Mode())
    assert client.consume(topic, 3, 2) == [b"a", b"b"]


# --- kafka-python ---


@pytest.fixture
def python_admin(bootstrap: str) -> Any:
    from kafka.admin import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_kafka_python_describes_and_changes_configs(python_admin: Any, topic: str) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "5555", "flush.ms": ("SET", "6")})
    python_admin.alter_configs([resource])
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic), ConfigResource(ConfigResourceType.BROKER, "0")]
    answer = python_admin.describe_configs(asked, config_filter="all", include_synonyms=True)
    configs = answer["topic"][topic]
    assert (configs["retention.ms"]["value"], configs["flush.ms"]["value"]) == ("5555", "6")
    assert configs["flush.ms"]["synonyms"][0]["name"] == "flush.ms"
    assert answer["broker"]["0"]["node.id"]["value"] == "0"


def test_kafka_python_describes_and_changes_levels_of_loggers(python_admin: Any) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    def levels(config_filter: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, "0")
        answer = python_admin.describe_configs([resource], config_filter=config_filter)
        return {name: config["value"] for name, config in answer["broker_logger"]["0"].items()}

    changed = ConfigResource(ConfigResourceType.BROKER_LOGGER, "0", {"logstore.links": "TRACE"})
    python_admin.alter_configs([changed])
    assert (levels("all")["logstore.links"], levels("all")["root"]) == ("TRACE", "INFO")
    deleted = ConfigResource(ConfigResourceType.BROKER_LOGGER, "0", {"logstore.links": ("DELETE", None)})
    python_admin.alter_configs([deleted])
    assert levels("all")["logstore.links"] == "INFO"
    assert python_admin.list_config_resources()["broker_logger"] == ["0", "1"]


def test_kafka_python_adds_partitions_and_lists_what_has_configs(python_admin: Any, topic: str) -> None:
    python_admin.create_partitions({topic: 3})
    (found,) = python_admin.describe_topics([topic])
    assert len(found["partitions"]) == 3
    listed = python_admin.list_config_resources()
    assert topic in listed["topic"]
    assert sorted(listed["broker"]) == ["0", "1"]


# --- barnabas itself ---


def test_barnabas_alters_topics(cluster: RunningCluster, admin: Any, topic: str) -> None:
    given = ("--config", "flush.ms=5", "--config", "retention.ms=6", "--partitions", "4")
    assert cluster.cli("topics", "alter", topic, *given).returncode == 0
    assert cluster.cli("topics", "alter", topic, "--delete-config", "flush.ms").returncode == 0
    said = cluster.cli("topics", "describe", topic).stdout
    assert "  retention.ms=6\n" in said
    assert "flush.ms" not in said
    assert len(admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions) == 4
    refused = cluster.cli("topics", "alter", topic, "--partitions", "2")
    assert refused.returncode != 0
    assert "INVALID_PARTITIONS" in refused.stderr
    assert "nothing to change" in cluster.cli("topics", "alter", topic).stderr
    assert "there is no topic 'nobody'" in cluster.cli("topics", "alter", "nobody", "--partitions", "2").stderr


# --- what comes of them ---


def test_a_smaller_limit_holds_for_the_next_record(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka import KafkaException, Producer

    def produce() -> None:
        failures: list[Any] = []
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(
            topic, bytes(2000), partition=0, on_delivery=lambda error, _: failures.append(error) if error else None
        )
        producer.flush(SECONDS_MAX)
        if failures:
            raise KafkaException(failures[0])

    produce()
    alter(admin, "topic", topic, "SET", "max.message.bytes", "1000")
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        produce()
    alter(admin, "topic", topic, "DELETE", "max.message.bytes", None)
    for broker in ("0", "1"):
        alter(admin, "broker", broker, "SET", "message.max.bytes", "1000")
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        produce()
    for broker in ("0", "1"):
        alter(admin, "broker", broker, "DELETE", "message.max.bytes", None)
    produce()


def test_a_bound_on_records_holds_for_compressed_ones(admin: Any, bootstrap: str, topic: str) -> None:
    from confluent_kafka import KafkaException, Producer

    def produce(codec: str) -> None:
        failures: list[Any] = []
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        producer.produce(
            topic, bytes(2000), partition=0, on_delivery=lambda error, _: failures.append(error) if error else None
        )
        producer.flush(SECONDS_MAX)
        if failures:
            raise KafkaException(failures[0])

    produce("gzip")
    alter(admin, "topic", topic, "SET", "max.decompressed.message.bytes", "1000")
    with pytest.raises(KafkaException, match="INVALID_RECORD"):
        produce("gzip")
    produce("none")
    alter(admin, "topic", topic, "DELETE", "max.decompressed.message.bytes", None)
    for broker in ("0", "1"):
        alter(admin, "broker", broker, "SET", "max.decompressed.message.bytes", "1000")
    with pytest.raises(KafkaException, match="INVALID_RECORD"):
        produce("zstd")
    for broker in ("0", "1"):
        alter(admin, "broker", broker, "DELETE", "max.decompressed.message.bytes", None)
    produce("zstd")


def test_configs_outlive_everybody(admin: Any, cluster: RunningCluster, topic: str) -> None:
    alter(admin, "topic", topic, "SET", "flush.ms", "4321")
    alter(admin, "broker", "1", "SET", "log.roll.ms", "123456")
    cluster.down()
    cluster.up()
    # librdkafka asks nothing of a broker that its last metadata did not name, and waits until it has new ones.
    deadline = time.monotonic() + SECONDS_MAX
    while len(retried(lambda: admin.list_topics(timeout=SECONDS_MAX)).brokers) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert described(admin, "topic", topic)["flush.ms"].value == "4321"
    assert described(admin, "broker", "1")["log.roll.ms"].value == "123456"
    alter(admin, "broker", "1", "DELETE", "log.roll.ms", None)
