"""The tables of configuration keys, held to Kafka 4.4's (`tests/compat/java/ConfigKeys.java`) and to the services."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from barnabas.cluster.broker_config_keys import (
    BARNABAS_ONLY,
    BROKER_KEYS,
    UpdateMode,
    default_for_topics,
    synonyms,
    topic_defaults,
)
from barnabas.cluster.config_values import ConfigKey, ConfigType, Range, to_text
from barnabas.cluster.ignored_config_keys import IGNORED_KEYS
from barnabas.cluster.kafka_config_keys import REMOVED, UNSUPPORTED, why_without_effect
from barnabas.cluster.keys import Role
from barnabas.cluster.topic_config import TopicConfig
from barnabas.cluster.topic_config_keys import TOPIC_KEYS
from barnabas.runtime.configuration.config import settings_of
from scripts.pages.configuration import SERVICES
from tests.compat.java_programs import SHORT_LIVED
from tests.unit.wire.golden import HAS_KAFKA, JARS, WITHOUT_KAFKA

GOLDEN_FILE = Path(__file__).parent / "kafka_configs.tsv"
PROGRAM = Path(__file__).parents[2] / "compat/java/ConfigKeys.java"
ROWS = [line.split("\t") for line in GOLDEN_FILE.read_text().splitlines()]
DYNAMIC_ONLY = [row[1] for row in ROWS if row[0] == "dynamic only"]
KEYS = ROWS[: -len(DYNAMIC_ONLY)]
KAFKA_BROKER = {name: (kind, default, mode) for tag, name, kind, default, _, mode in KEYS if tag == "broker"}
KAFKA_TOPIC = {name: (kind, default, names) for tag, name, kind, default, _, names in KEYS if tag == "topic"}
KAFKA_VALID = {(tag, name): valid for tag, name, _, _, valid, _ in KEYS}

# What another default than Kafka's is for.
OTHER_DEFAULTS = {
    "listeners": "loopback by default",
    "log.dir": "no data in /tmp",
    "queued.max.request.bytes": "memory has a bound",
    "socket.listen.backlog.size": "many clients come at once",
    "socket.send.buffer.bytes": "answers of several MB are usual, and each piece of one costs",
    "ssl.keystore.type": "by the file's content, and JKS is Java's",
    "ssl.truststore.type": "by the file's content, and JKS is Java's",
    "sasl.enabled.mechanisms": "GSSAPI needs a key, and there is no password without one that is chosen",
    "listener.security.protocol.map": "the names of the protocols need no entry",
}


@pytest.mark.java
@pytest.mark.skipif(not HAS_KAFKA, reason=WITHOUT_KAFKA)
def test_kafka_still_has_the_same_keys() -> None:
    command = ["java", *SHORT_LIVED, "-cp", f"{JARS}/*", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == GOLDEN_FILE.read_text()


def test_topics_have_kafkas_keys_types_defaults_and_synonyms() -> None:
    ours = {
        key.name: (key.config_type.name, key.default, ",".join(synonym.name for synonym in key.synonyms))
        for key in TOPIC_KEYS.values()
    }
    assert ours == KAFKA_TOPIC
    assert list(TOPIC_KEYS) == sorted(TOPIC_KEYS)


def valid_values(key: ConfigKey) -> str:
    """What a key accepts, as Kafka's validators print it."""
    if key.choices:
        return f"[{', '.join(key.choices)}]"
    if key.validator is None:
        return ""
    if not isinstance(key.validator, Range):
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    bounds = key.validator
    high = "..." if bounds.high in (None, 2**31 - 1) else f"...,{to_text(bounds.high or 0)}"
    low = "" if bounds.low is None else to_text(bounds.low)
    return f"[{low},{high}]" + ("" if bounds.exception is None else f" or {bounds.exception}")


def test_topics_have_kafkas_bounds() -> None:
    assert {name: valid_values(key) for name, key in TOPIC_KEYS.items()} == {
        name: KAFKA_VALID["topic", name] for name in TOPIC_KEYS
    }


@pytest.mark.parametrize("name", IGNORED_KEYS)
def test_what_is_kept_without_an_effect_is_kafkas(name: str) -> None:
    key = IGNORED_KEYS[name]
    default = "null" if key.default is None else key.default
    kind, kafkas_default, mode = KAFKA_BROKER[name]
    assert (key.config_type.name, default) == (kind, kafkas_default)
    assert mode in ("cluster-wide", "per-broker")
    # Kafka's clients have these bounds of logins, its brokers have none.
    assert name.startswith("sasl.login.") or valid_values(key) == KAFKA_VALID["broker", name]


def test_a_topics_configuration_has_the_tables_keys_and_defaults() -> None:
    config = TopicConfig()
    for field in fields(TopicConfig):
        key = TOPIC_KEYS[field.name.replace("_", ".")]
        assert key.default is not None
        assert to_text(getattr(config, field.name)) == key.normalized(key.default)
    assert len(fields(TopicConfig)) == len(TOPIC_KEYS)


def test_every_key_of_kafka_is_served_or_named_with_a_reason_and_never_both() -> None:
    known = set(KAFKA_BROKER) | set(DYNAMIC_ONLY)
    served = set(BROKER_KEYS) - BARNABAS_ONLY
    of_kafka_3 = {"log.message.downconversion.enable", "leader.imbalance.per.broker.percentage"}
    # Kafka's StandardAuthorizer reads them itself.
    of_the_authorizer = {"super.users", "allow.everyone.if.no.acl.found"}
    assert served - known == of_kafka_3 | of_the_authorizer
    assert known - served == set(UNSUPPORTED)
    assert not set(UNSUPPORTED) & set(REMOVED)


@pytest.mark.parametrize("name", sorted(set(BROKER_KEYS) & set(KAFKA_BROKER)))
def test_a_broker_key_is_of_kafkas_type_and_no_more_dynamic_than_kafkas(name: str) -> None:
    key, (kind, _, mode) = BROKER_KEYS[name], KAFKA_BROKER[name]
    assert key.config_type.name == kind
    assert key.update_mode is UpdateMode.READ_ONLY or mode == "cluster-wide"


def test_no_key_names_a_class() -> None:
    assert [name for name, key in BROKER_KEYS.items() if key.config_type is ConfigType.CLASS] == []


@pytest.mark.parametrize("role", SERVICES)
def test_the_table_has_the_keys_of_each_service(role: Role) -> None:
    """A new key of a service needs a row in `broker_config_keys`, and none in `kafka_config_keys` any more."""
    in_table = {name for name, key in BROKER_KEYS.items() if role in key.services}
    assert in_table == set(settings_of(SERVICES[role], []))


@pytest.mark.parametrize("role", SERVICES)
def test_the_defaults_of_each_service_are_good_and_kafkas_where_kafka_has_the_key(role: Role) -> None:
    for name, setting in settings_of(SERVICES[role], []).items():
        key: ConfigKey = BROKER_KEYS[name]
        if setting.default is not None:
            assert key.problem(setting.default) is None
        if name not in KAFKA_BROKER or name in OTHER_DEFAULTS or role in (Role.PURGATORY, Role.CONTROLLER):
            continue
        _, default, _ = KAFKA_BROKER[name]
        if name in ("num.partitions", "default.replication.factor", "node.id"):
            assert setting.default == "-1"
        else:
            ours = None if setting.default is None else key.normalized(setting.default)
            assert (ours or "null") == (default or "null"), name


def bounds_of(field_type: Any) -> tuple[float | None, float | None]:
    """What a field of a service's configuration accepts, whether it is optional or not."""
    for each in (field_type, *get_args(field_type)):
        metas = [meta for meta in get_args(each) if isinstance(meta, msgspec.Meta)]
        if metas:
            return metas[0].ge, metas[0].le
    return None, None


@pytest.mark.parametrize("role", SERVICES)
def test_services_have_the_bounds_of_the_table(role: Role) -> None:
    """Also for an exception below the range: compression.gzip.level may be -1."""
    fields_by_key = {field.name.replace("_", "."): field for field in msgspec.structs.fields(type(SERVICES[role]))}
    for name, key in BROKER_KEYS.items():
        if role in key.services and isinstance(key.validator, Range):
            low = key.validator.low if key.validator.exception is None else key.validator.exception
            assert bounds_of(fields_by_key[name].type) == (low, key.validator.high), name


def test_only_the_last_of_several_synonyms_has_a_default() -> None:
    assert default_for_topics("log.retention.hours") == 168
    assert default_for_topics("log.retention.minutes") is None
    assert default_for_topics("log.retention.ms") is None
    assert default_for_topics("log.flush.interval.ms") is None
    assert default_for_topics("log.flush.scheduler.interval.ms") == 2**63 - 1
    assert default_for_topics("log.cleanup.policy") == "delete"
    with pytest.raises(LookupError):
        default_for_topics("num.io.threads")


def test_synonyms_say_the_same_in_other_units() -> None:
    assert synonyms("log.retention.hours") == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert synonyms("log.segment.bytes") == ("log.segment.bytes",)
    assert topic_defaults({"log.retention.hours": "2", "log.retention.minutes": "3"}) == {"retention.ms": "180000"}
    assert topic_defaults({"log.retention.hours": "-1"}) == {"retention.ms": "-1"}
    assert topic_defaults({"log.cleanup.policy": ""}) == {"cleanup.policy": ""}


def test_old_and_prefixed_keys_are_known_and_others_are_not() -> None:
    assert why_without_effect("zookeeper.connect") is not None
    assert why_without_effect("listener.name.internal.ssl.keystore.location") is not None
    assert why_without_effect("num.netwrok.threads") is None
    assert why_without_effect("node.id") is None
