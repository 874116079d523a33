"""DescribeConfigs of topics and brokers: each value, its source, and the precedence of sources.

Sources are Kafka's (KIP-226), by precedence: the topic's own, this broker's, all brokers', the properties that the
service was started with, the default. Deviation: a topic whose value comes from a key in another unit (retention.ms
from log.retention.hours) has that key among its synonyms, and as its source; Kafka has neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from barnabas.cluster.administration import ConfigSynonym, DescribedConfig
from barnabas.cluster.broker_config_keys import BROKER_KEYS, synonyms
from barnabas.cluster.broker_key import BrokerKey, UpdateMode
from barnabas.cluster.config_values import ConfigKey
from barnabas.cluster.ignored_config_keys import ALTERABLE_KEYS, IGNORED_KEYS
from barnabas.cluster.kafka_config_keys import UNSUPPORTED
from barnabas.cluster.topic_config_keys import TOPIC_KEYS, TopicKey


class ConfigSource(IntEnum):
    """Kafka's DescribeConfigsResponse.ConfigSource, with its numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(slots=True, frozen=True)
class Setting:
    """One key of a service as it started: None is unset. `is_given`: set by a file, the environment or an argument."""

    value: str | None
    default: str | None
    is_given: bool


@dataclass(slots=True, frozen=True)
class BrokerValues:
    """Everything that determines the values of a broker's keys: dynamic ones, its own and those of all, and the static
    ones.
    """

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)

    def sources(self, names: Collection[str]) -> Iterator[tuple[str, str, ConfigSource]]:
        """Return every value of these keys, by name, text and source, by precedence."""
        for values, source in (
            (self.dynamic, ConfigSource.DYNAMIC_BROKER),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ):
            for name in names:
                if name in values:
                    yield name, values[name], source
        for name in names:
            setting = self.settings.get(name)
            if setting is not None and setting.is_given and setting.value is not None:
                yield name, setting.value, ConfigSource.STATIC_BROKER
        for name in names:
            known = self.settings.get(name, ALTERABLE_KEYS.get(name))
            default = None if known is None else known.default
            if default is not None:
                yield name, default, ConfigSource.DEFAULT


@dataclass(slots=True, frozen=True)
class Wanted:
    """What a client requests. `keys` None: all of them."""

    keys: frozenset[str] | None = None
    synonyms: bool = False
    documentation: bool = False


def describe_topic(overrides: Mapping[str, str], broker: BrokerValues, wanted: Wanted) -> list[DescribedConfig]:
    """Describe every key of a topic with these overrides on a broker with these values."""
    described = []
    for key in TOPIC_KEYS.values():
        if wanted.keys is None or key.name in wanted.keys:
            found = list(_topic_values(key, overrides, broker))
            value = _in_unit_of(key, found[0]) if found else key.default
            described.append(_described(key, value, found, wanted, read_only=False))
    return described


def _topic_values(key: TopicKey, overrides: Mapping[str, str], broker: BrokerValues) -> Iterator[ConfigSynonym]:
    if key.name in overrides:
        yield ConfigSynonym(key.name, False, _shown(key, overrides[key.name]), ConfigSource.TOPIC)
    for name, text, source in broker.sources(tuple(synonym.name for synonym in key.synonyms)):
        yield ConfigSynonym(name, False, _shown(BROKER_KEYS[name], text), source)
    for synonym in key.synonyms:
        # No service reads it, so it never has another value than Kafka's default.
        if synonym.name in UNSUPPORTED and key.default is not None:
            yield ConfigSynonym(synonym.name, False, key.default, ConfigSource.DEFAULT)


def _in_unit_of(key: TopicKey, found: ConfigSynonym) -> str:
    """Convert, for example, hours to ms; -1 hours means forever, too."""
    factor = next((synonym.factor for synonym in key.synonyms if synonym.name == found.name), 1)
    return found.value if factor == 1 else str(max(int(found.value) * factor, -1))


def describe_broker(broker: BrokerValues, wanted: Wanted) -> list[DescribedConfig]:
    """Describe every key that the broker was started with, and those without effect that are set."""
    described = []
    for name, key in BROKER_KEYS.items():
        setting = broker.settings.get(name)
        if setting is None or not (wanted.keys is None or name in wanted.keys):
            continue
        value = broker.dynamic.get(name, broker.dynamic_default.get(name, setting.value))
        described.append(_described_broker_key(key, value, broker, wanted))
    for name, key in IGNORED_KEYS.items():
        value = broker.dynamic.get(name, broker.dynamic_default.get(name))
        if value is not None and (wanted.keys is None or name in wanted.keys):
            described.append(_described_broker_key(key, value, broker, wanted))
    return described


def describe_broker_defaults(dynamic_default: Mapping[str, str], wanted: Wanted) -> list[DescribedConfig]:
    """Describe only the dynamic default configs of all brokers: the resource without a name."""
    broker = BrokerValues(dynamic_default=dynamic_default)
    described = []
    for name, value in dynamic_default.items():
        key = ALTERABLE_KEYS.get(name)
        if key is not None and (wanted.keys is None or name in wanted.keys):
            described.append(_described_broker_key(key, value, broker, wanted, ConfigSource.DYNAMIC_DEFAULT_BROKER))
    return described


def _described_broker_key(
    key: BrokerKey, value: str | None, broker: BrokerValues, wanted: Wanted, only: ConfigSource | None = None
) -> DescribedConfig:
    found = [
        ConfigSynonym(name, key.is_sensitive, "" if key.is_sensitive else _shown(ALTERABLE_KEYS[name], text), source)
        for name, text, source in broker.sources(synonyms(key.name))
        if only is None or source is only
    ]
    # As in Kafka: a synonym that precedes the key itself means the same in another unit, and is not this key's source.
    while found and found[0].name != key.name:
        del found[0]
    shown = None if value is None else _shown(key, value)
    return _described(key, shown, found, wanted, read_only=key.update_mode is UpdateMode.READ_ONLY)


def _described(
    key: ConfigKey, value: str | None, found: list[ConfigSynonym], wanted: Wanted, *, read_only: bool
) -> DescribedConfig:
    is_null = value is None or key.is_sensitive
    return DescribedConfig(
        name=key.name,
        is_null=is_null,
        value="" if is_null or value is None else value,
        read_only=read_only,
        source=found[0].source if found else ConfigSource.DEFAULT,
        is_sensitive=key.is_sensitive,
        synonyms=found if wanted.synonyms else [],
        config_type=key.config_type,
        documentation=key.documentation if wanted.documentation else "",
    )


def _shown(key: ConfigKey, text: str) -> str:
    """Return a value as Kafka shows it; unchanged if a newer version than this one has accepted it."""
    return text if key.problem(text) is not None else key.normalized(text)
