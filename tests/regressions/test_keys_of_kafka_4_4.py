"""A file with a broker key that is new in Kafka 4.4 kept every service from starting, and a topic could not be created
with a new topic key: both were taken for typing errors.

Services start with every broker key of Kafka 4.4 now, and name those without an effect. Topic keys are taken, checked
and described as Kafka does, and `max.decompressed.message.bytes` has its effect: INVALID_RECORD where a record of a
compressed batch is longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from barnabas.cluster.config_description import BrokerValues, ConfigSource, Wanted, describe_topic
from barnabas.cluster.config_values import ConfigType
from barnabas.cluster.kafka_config_keys import UNSUPPORTED
from barnabas.cluster.keys import Role
from barnabas.cluster.messages import AlterConfigsResult, NewTopic
from barnabas.runtime.compression import compress
from barnabas.runtime.configuration.config import load_config, settings_of
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import HEADER_BYTES, Compression, Record, assemble_batch, build_batch, parse_header
from scripts.pages.configuration import SERVICES
from tests.unit.cluster.test_config_keys import KAFKA_BROKER
from tests.unit.controller.cluster import BROKER, alter, create, created, to_set
from tests.unit.controller.test_config_changes import a_cluster, broker_configs_of, configs_of, outcome
from tests.unit.logstore.service.support import EXCHANGE, READ, WALL_MS, Host, topic

NEW = {
    "errors.deadletterqueue.topic.name.prefix": "dlq.",
    "group.consumer.assignor.offload.enable": "true",
    "group.share.dlq.manager.class.name": "org.example.Manager",
    "group.streams.assignors": "sticky",
    "log.remote.copy.lag.ms": "0",
    "sasl.oauthbearer.allow.unverified.audience": "true",
}
TOPIC_KEYS = {
    "errors.deadletterqueue.group.enable": "true",
    "max.decompressed.message.bytes": "1000000",
    "remote.copy.lag.bytes": "-1",
    "remote.copy.lag.ms": "5000",
}


@pytest.mark.parametrize("role", SERVICES)
def test_every_service_starts_and_names_the_keys(role: Role, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in NEW.items()))
    needed = {"node.id": "1", "log.dirs": "/data", "etcd.endpoints": "etcd:2379"}
    own = settings_of(SERVICES[role], [])
    given = [each for key, value in needed.items() if key in own for each in ("--set", f"{key}={value}")]
    loaded = load_config(type(SERVICES[role]), ["--config", str(file), *given], program=role.value)
    with capture_logs() as lines:
        loaded.log_start()
    named = {line["key"]: line["reason"] for line in lines if line["event"] == "a key has no effect"}
    assert named == {key: UNSUPPORTED[key] for key in NEW}


@pytest.mark.parametrize("role", SERVICES)
def test_no_broker_key_of_kafka_keeps_a_service_from_starting(role: Role, tmp_path: Path) -> None:
    own = settings_of(SERVICES[role], [])
    others = [key for key in KAFKA_BROKER if key not in own]
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}=x\n" for key in others))
    given = [f"{key}={own[key].value}" for key in ("node.id", "log.dirs", "etcd.endpoints") if key in own]
    argv = [each for text in given for each in ("--set", text)]
    loaded = load_config(type(SERVICES[role]), ["--config", str(file), *argv], program=role.value)
    assert {notice.key for notice in loaded.notices} == set(others)


def test_topics_are_created_and_changed_with_the_new_keys() -> None:
    cluster, controller = a_cluster()
    request = controller.request(create(NewTopic("letters", 1, 1, configs=TOPIC_KEYS)))
    cluster.settle()
    assert [result.error_code for result in created(controller, request)] == [ErrorCode.NONE]
    assert configs_of(controller, "letters") == TOPIC_KEYS
    changes = [to_set(key, value) for key, value in TOPIC_KEYS.items()]
    assert outcome(cluster, controller, alter("events", *changes)) == AlterConfigsResult(ErrorCode.NONE)
    assert configs_of(controller) == TOPIC_KEYS


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("errors.deadletterqueue.group.enable", "yes", "Expected value to be either true or false"),
        ("max.decompressed.message.bytes", "0", "Value must be at least 1"),
        ("max.decompressed.message.bytes", "2147483640", "Value must be no more than 2147483639"),
        ("remote.copy.lag.bytes", "-2", "Value must be at least -1"),
        ("remote.copy.lag.ms", "soon", "Not a number of type LONG"),
    ],
)
def test_their_values_are_checked_as_by_kafka(key: str, value: str, message: str) -> None:
    cluster, controller = a_cluster()
    result = outcome(cluster, controller, alter("events", to_set(key, value)))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert message in result.error_message
    assert configs_of(controller) == {}


@pytest.mark.parametrize("key", ["log.remote.copy.lag.ms", "errors.deadletterqueue.topic.name.prefix"])
def test_a_change_while_brokers_run_is_refused_with_the_reason(key: str) -> None:
    cluster, controller = a_cluster()
    result = outcome(cluster, controller, alter("", to_set(key, "0"), resource_type=BROKER))
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_CONFIG, f"{key}: {UNSUPPORTED[key]}")


@pytest.mark.parametrize(
    ("key", "config_type", "default", "follows"),
    [
        ("errors.deadletterqueue.group.enable", ConfigType.BOOLEAN, "false", []),
        (
            "max.decompressed.message.bytes",
            ConfigType.INT,
            "2147483639",
            [("max.decompressed.message.bytes", "2147483639")],
        ),
        ("remote.copy.lag.bytes", ConfigType.LONG, "-1", [("log.remote.copy.lag.bytes", "-1")]),
        ("remote.copy.lag.ms", ConfigType.LONG, "0", [("log.remote.copy.lag.ms", "0")]),
        ("local.retention.ms", ConfigType.LONG, "-2", [("log.local.retention.ms", "-2")]),
    ],
)
def test_they_are_described_with_the_broker_keys_that_they_follow(
    key: str, config_type: ConfigType, default: str, follows: list[tuple[str, str]]
) -> None:
    """The broker key of tiered storage was missing among the synonyms."""
    (found,) = describe_topic({}, BrokerValues(), Wanted(frozenset([key]), synonyms=True))
    assert (found.config_type, found.value, found.source) == (config_type, default, ConfigSource.DEFAULT)
    assert [(each.name, each.value, each.source) for each in found.synonyms] == [
        (*synonym, ConfigSource.DEFAULT) for synonym in follows
    ]


BOUND = 10_000
OVERHEAD = 8
"""Of a record with a value of some KB: its attributes, timestamp, offset, lengths of key and value, and headers."""


def a_leader(**configs: str) -> Host:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead(topic(configs={name.replace("_", "."): value for name, value in configs.items()}))
    return host


def a_batch(codec: Compression, *value_lengths: int) -> bytes:
    batch = build_batch([Record(None, bytes(length), WALL_MS) for length in value_lengths])
    header = parse_header(batch).with_compression(codec)
    return assemble_batch(header, compress(codec, batch[HEADER_BYTES:], None))


@pytest.mark.parametrize("compression_type", ["producer", "uncompressed", "zstd"])
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_record_of_a_compressed_batch_is_bounded(codec: Compression, compression_type: str) -> None:
    """By what Kafka counts: a record without the number in front of it that says its size."""
    host = a_leader(max_decompressed_message_bytes=str(BOUND), compression_type=compression_type)
    longest = BOUND - OVERHEAD
    assert host.append(a_batch(codec, 1, longest, longest)).base_offset == 0
    result = host.append(a_batch(codec, longest, longest + 1))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert (
        result.error_message == f"Invalid record size: {BOUND + 1} exceeds the configured maximum record size of 10000."
    )
    assert host.append(a_batch(codec, 1)).base_offset == 3


def test_a_record_of_a_batch_that_is_not_compressed_is_not_bounded() -> None:
    host = a_leader(max_decompressed_message_bytes=str(BOUND), cleanup_policy="delete")
    assert host.append(a_batch(Compression.NONE, BOUND + 1)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("bound", [2147483639, 64 * 1024 * 1024])
def test_without_a_bound_that_a_batch_can_exceed_nothing_is_opened(bound: int) -> None:
    host = a_leader(max_decompressed_message_bytes=str(bound))
    damaged = a_batch(Compression.GZIP, 1)
    header = parse_header(damaged)
    assert host.append(assemble_batch(header, b"no gzip")).error_code == ErrorCode.NONE


def test_the_bound_of_all_topics_can_be_changed_while_brokers_run() -> None:
    cluster, controller = a_cluster()
    change = alter("", to_set("max.decompressed.message.bytes", "10000"), resource_type=BROKER)
    assert outcome(cluster, controller, change) == AlterConfigsResult(ErrorCode.NONE)
    assert broker_configs_of(controller) == {"max.decompressed.message.bytes": "10000"}
