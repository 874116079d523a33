"""Inconsistent or wrong settings of a logstore are reported with words that lead to the line."""

from __future__ import annotations

import pytest

from barnabas.runtime.configuration.config import ConfigError, build_config
from barnabas_logstore.shell.config import LogstoreSettings


def settings(**values: str) -> LogstoreSettings:
    given = {"etcd.endpoints": "127.0.0.1:2379", "log.dirs": "/logs", **values}
    return build_config(LogstoreSettings, {key: (value, "file") for key, value in given.items()})


def test_a_broker_id_beside_another_node_id_is_refused() -> None:
    """node.id was taken and broker.id passed over without a word; Kafka refuses to start."""
    with pytest.raises(ConfigError, match=r"node\.id=1 and broker\.id=3 differ"):
        settings(**{"node.id": "1", "broker.id": "3"})
    assert settings(**{"node.id": "3", "broker.id": "3"}).node_id == 3
    assert settings(**{"broker.id": "3"}).node_id == 3


@pytest.mark.parametrize("key", ["log.retention.ms", "log.roll.ms", "log.flush.interval.ms"])
def test_a_number_that_may_be_unset_is_asked_for_as_a_number(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}=a week \(file\): expected `int`$"):
        settings(**{"node.id": "1", key: "a week"})
