"""What Apache Kafka 4.4.0 serves, by its jars, and what Barnabas does: whatever differs is in the tables with a reason.

The golden files are Kafka's: `test_kafka_still_serves_the_same` and `test_kafka_still_has_the_same_keys` hold them to
its jars.
"""

from __future__ import annotations

import re

from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.features import NEW_CLUSTER_LEVELS, SUPPORTED_FEATURES
from barnabas.cluster.kafka_config_keys import UNSUPPORTED
from barnabas.cluster.topic_config_keys import TOPIC_KEYS
from barnabas.wire.api_keys import SERVED_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode
from scripts.pages.kafka_differences import (
    API_KEYS,
    ERRORS,
    FEATURES,
    NEW_BROKER_KEYS_WITHOUT_EFFECT,
    PAGE,
    TOPIC_KEYS_WITHOUT_EFFECT,
    page,
)
from tests.unit.cluster.test_config_keys import KAFKA_BROKER, KAFKA_TOPIC
from tests.unit.wire.golden import serves


def text(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


KAFKAS = {int(key): text(int(first), int(last)) for key, _, first, last in serves("key")}
OURS = {int(key): text(key.advertised_min, key.version_max) for key in SERVED_KEYS}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


def test_every_key_and_version_that_differs_is_in_the_table_and_nothing_else_is() -> None:
    listed = {key: (KAFKAS.get(key, "none"), OURS.get(key, "none")) for key in KAFKAS | OURS}
    differing = {key: both for key, both in sorted(listed.items()) if both[0] != both[1]}
    assert {key: (each.kafka, each.barnabas) for key, each in API_KEYS.items()} == differing


def test_the_names_of_keys_are_kafkas() -> None:
    names = {int(key): name for key, name, _, _ in serves("key")}
    assert {key: ApiKey(key).api_name for key in names if key in set(ApiKey)} == {
        key: name for key, name in names.items() if key in set(ApiKey)
    }


def test_every_feature_that_differs_is_in_the_table() -> None:
    kafkas = {name: (int(low), int(high)) for name, low, high, _ in serves("feature")}
    by_default = {name: int(level) for name, _, _, level in serves("feature")}
    assert {name: levels for name, levels in kafkas.items() if name not in FEATURES} == SUPPORTED_FEATURES
    assert {name: level for name, level in by_default.items() if name not in FEATURES} == NEW_CLUSTER_LEVELS
    assert set(FEATURES) <= set(kafkas)


def test_every_error_that_differs_is_in_the_table() -> None:
    kafkas = {int(code): name for code, name in serves("error")}
    assert {code: name for code, name in kafkas.items() if code not in ERRORS} == {
        int(code): code.name for code in ErrorCode
    }
    assert set(ERRORS) <= set(kafkas)


def test_every_configuration_key_of_kafka_is_known() -> None:
    assert set(KAFKA_BROKER) - set(BROKER_KEYS) - set(UNSUPPORTED) == set()
    assert set(KAFKA_TOPIC) == set(TOPIC_KEYS)
    assert set(NEW_BROKER_KEYS_WITHOUT_EFFECT) <= set(UNSUPPORTED)


def test_the_topic_keys_without_effect_are_those_that_nothing_reads() -> None:
    """By the attributes of `TopicConfig` in the code, and by the names of keys in quotation marks."""
    root = PAGE.parents[2]
    own = {"topic_config.py", "topic_config_keys.py"}
    read: set[str] = set()
    for folder in ("barnabas", "cli", "services"):
        for path in (root / folder).rglob("*.py"):
            if path.name not in own:
                read |= set(re.findall(r"\.([a-z0-9_]+)\b|\"([a-z0-9._]+)\"", path.read_text()))
    used = {name.replace("_", ".") for pair in read for name in pair if name}
    # `TopicConfig.is_compacted` and its neighbours read it.
    used.add("cleanup.policy")
    assert set(TOPIC_KEYS) - used == set(TOPIC_KEYS_WITHOUT_EFFECT)
