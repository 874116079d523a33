"""What DescribeConfigs says: values, sources, synonyms in their order."""

from __future__ import annotations

import pytest

from barnabas.cluster.administration import ConfigSynonym, DescribedConfig
from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.broker_key import BrokerKey
from barnabas.cluster.config_description import (
    BrokerValues,
    ConfigSource,
    Setting,
    Wanted,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from barnabas.cluster.config_values import ConfigType
from barnabas.cluster.topic_config_keys import TOPIC_KEYS

ALL = Wanted(synonyms=True, documentation=True)
SETTINGS = {
    "log.segment.bytes": Setting("1073741824", "1073741824", False),
    "log.retention.ms": Setting(None, None, False),
    "log.retention.minutes": Setting(None, None, False),
    "log.retention.hours": Setting("72", "168", True),
    "node.id": Setting("1", None, True),
    "log.preallocate": Setting("FALSE", "false", True),
}


def topic(name: str, overrides: dict[str, str], broker: BrokerValues) -> DescribedConfig:
    (found,) = describe_topic(overrides, broker, Wanted(frozenset([name]), synonyms=True))
    return found


def broker(name: str, values: BrokerValues) -> DescribedConfig:
    (found,) = describe_broker(values, Wanted(frozenset([name]), synonyms=True))
    return found


def synonyms(config: DescribedConfig) -> list[tuple[str, str, int]]:
    return [(each.name, each.value, each.source) for each in config.synonyms]


def test_all_keys_of_a_topic_with_their_defaults() -> None:
    described = describe_topic({}, BrokerValues(), ALL)
    assert [each.name for each in described] == list(TOPIC_KEYS)
    assert all(each.source == ConfigSource.DEFAULT and not each.read_only for each in described)
    assert all(each.documentation and each.config_type for each in described)
    assert {each.name: each.value for each in described}["follower.replication.throttled.replicas"] == ""
    assert not any(each.documentation or each.synonyms for each in describe_topic({}, BrokerValues(), Wanted()))


def test_the_strongest_source_of_a_topics_value_comes_first() -> None:
    values = BrokerValues({"log.segment.bytes": "2000000"}, {"log.segment.bytes": "3000000"}, SETTINGS)
    found = topic("segment.bytes", {"segment.bytes": " 4000000 "}, values)
    assert (found.value, found.source) == ("4000000", ConfigSource.TOPIC)
    assert synonyms(found) == [
        ("segment.bytes", "4000000", ConfigSource.TOPIC),
        ("log.segment.bytes", "2000000", ConfigSource.DYNAMIC_BROKER),
        ("log.segment.bytes", "3000000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    ]
    without = topic("segment.bytes", {}, values)
    assert (without.value, without.source, synonyms(without)) == ("2000000", 2, synonyms(found)[1:])


def test_a_key_in_another_unit_gives_the_topic_its_value() -> None:
    found = topic("retention.ms", {}, BrokerValues(settings=SETTINGS))
    assert (found.value, found.source) == (str(72 * 3_600_000), ConfigSource.STATIC_BROKER)
    assert synonyms(found) == [
        ("log.retention.hours", "72", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    changed = topic("retention.ms", {}, BrokerValues({}, {"log.retention.ms": "5"}, SETTINGS))
    assert (changed.value, changed.source) == ("5", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_a_broker_is_described_by_the_keys_it_was_started_with() -> None:
    described = {each.name: each for each in describe_broker(BrokerValues(settings=SETTINGS), ALL)}
    assert described.keys() == SETTINGS.keys()
    assert described["node.id"].read_only
    assert not described["log.segment.bytes"].read_only
    assert (described["node.id"].value, described["node.id"].source) == ("1", ConfigSource.STATIC_BROKER)
    assert described["log.retention.ms"].is_null
    # As Kafka: what says the same in another unit is no source of this key.
    assert (synonyms(described["log.retention.ms"]), described["log.retention.ms"].source) == ([], ConfigSource.DEFAULT)
    assert synonyms(described["log.retention.hours"]) == [
        ("log.retention.hours", "72", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    assert described["log.preallocate"].value == "false"


def test_a_brokers_own_change_goes_before_that_of_all() -> None:
    values = BrokerValues({"log.segment.bytes": "2000000"}, {"log.segment.bytes": "3000000"}, SETTINGS)
    found = broker("log.segment.bytes", values)
    assert (found.value, found.source) == ("2000000", ConfigSource.DYNAMIC_BROKER)
    others = broker("log.segment.bytes", BrokerValues({}, values.dynamic_default, SETTINGS))
    assert (others.value, others.source) == ("3000000", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_the_defaults_of_all_brokers_are_what_they_were_given_and_no_more() -> None:
    (found,) = describe_broker_defaults({"log.segment.bytes": "3000000", "of a newer version": "1"}, ALL)
    assert (found.name, found.value, found.source) == ("log.segment.bytes", "3000000", 3)
    assert synonyms(found) == [("log.segment.bytes", "3000000", ConfigSource.DYNAMIC_DEFAULT_BROKER)]
    assert describe_broker_defaults({"log.segment.bytes": "3000000"}, Wanted(frozenset(["log.roll.ms"]))) == []


def test_a_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = BrokerKey("ssl.key.password", ConfigType.PASSWORD, None, "A secret.")
    monkeypatch.setitem(BROKER_KEYS, "ssl.key.password", secret)
    values = BrokerValues(settings={"ssl.key.password": Setting("hunter2", None, True)})
    (found,) = describe_broker(values, ALL)
    assert (found.is_null, found.value, found.is_sensitive) == (True, "", True)
    assert found.synonyms == [ConfigSynonym("ssl.key.password", True, "", ConfigSource.STATIC_BROKER)]


def test_a_value_that_this_version_does_not_understand_is_shown_as_it_is() -> None:
    found = topic("compression.type", {"compression.type": "brotli"}, BrokerValues())
    assert (found.value, found.source) == ("brotli", ConfigSource.TOPIC)
