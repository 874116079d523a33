"""AlterConfigs of `sasl.kerberos.min.time.before.relogin` and its like was INVALID_CONFIG.

Kafka changes such keys at run time; librdkafka's own tests set this one, and so does infrastructure as code. They are
kept and described now. What names a class, or is a limit, is still refused, with the reason.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.config_description import (
    BrokerValues,
    ConfigSource,
    Wanted,
    describe_broker,
    describe_broker_defaults,
)
from barnabas.cluster.ignored_config_keys import IGNORED_KEYS
from barnabas.cluster.messages import ALL_BROKERS, AlterConfigsResult, ConfigChange
from barnabas.wire.errors import ErrorCode
from tests.unit.controller.cluster import BROKER, DELETE, alter, to_set
from tests.unit.controller.test_config_changes import a_cluster, broker_configs_of, outcome

KEY = "sasl.kerberos.min.time.before.relogin"
DONE = AlterConfigsResult(ErrorCode.NONE)


@pytest.mark.parametrize("broker_id", [1, ALL_BROKERS])
def test_it_is_kept_for_one_broker_and_for_all(broker_id: int) -> None:
    cluster, controller = a_cluster()
    name = "" if broker_id == ALL_BROKERS else str(broker_id)
    assert outcome(cluster, controller, alter(name, to_set(KEY, "58000"), resource_type=BROKER)) == DONE
    assert broker_configs_of(controller, broker_id) == {KEY: "58000"}
    assert outcome(cluster, controller, alter(name, ConfigChange(KEY, DELETE, ""), resource_type=BROKER)) == DONE
    assert broker_configs_of(controller, broker_id) == {}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (KEY, "soon", "Not a number of type LONG"),
        ("sasl.login.refresh.window.factor", "0.2", "Value must be at least 0.5"),
        ("remote.log.reader.threads", "0", "Value must be at least 1"),
    ],
)
def test_its_value_is_checked_as_by_kafka(key: str, value: str, message: str) -> None:
    cluster, controller = a_cluster()
    result = outcome(cluster, controller, alter("1", to_set(key, value), resource_type=BROKER))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert message in result.error_message


@pytest.mark.parametrize(
    "key", ["sasl.jaas.config", "metric.reporters", "ssl.engine.factory.class", "max.connections.per.ip.overrides"]
)
def test_classes_and_limits_are_refused(key: str) -> None:
    cluster, controller = a_cluster()
    result = outcome(cluster, controller, alter("1", to_set(key, "x"), resource_type=BROKER))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert key not in IGNORED_KEYS


def test_what_is_set_is_described_with_its_default() -> None:
    values = BrokerValues({KEY: "58000"}, {KEY: "59000"})
    (found,) = describe_broker(values, Wanted(frozenset([KEY]), synonyms=True, documentation=True))
    assert (found.value, found.source, found.read_only) == ("58000", ConfigSource.DYNAMIC_BROKER, False)
    assert [(each.value, each.source) for each in found.synonyms] == [
        ("58000", ConfigSource.DYNAMIC_BROKER),
        ("59000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("60000", ConfigSource.DEFAULT),
    ]
    assert found.documentation.startswith("No effect: ")
    (all_brokers,) = describe_broker_defaults({KEY: "59000"}, Wanted())
    assert (all_brokers.name, all_brokers.value) == (KEY, "59000")
    assert describe_broker(BrokerValues(), Wanted(frozenset([KEY]))) == []
