"""AlterConfigs of `log.cleaner.backoff.ms` was refused: "Cannot update these configs dynamically".

Kafka changes it at run time; Sarama's own functional tests do.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import ALL_BROKERS, AlterConfigsResult, BrokerConfigs, UpdateMetadata
from barnabas.wire.errors import ErrorCode
from tests.unit.controller.cluster import BROKER, alter, to_set
from tests.unit.controller.test_config_changes import a_cluster, broker_configs_of, outcome
from tests.unit.logstore.compaction.test_cleaning import COMPACTED, CleaningHost
from tests.unit.logstore.service.support import CLUSTER_ID, EXCHANGE, NODE_ID, READ, WATCH, topic

KEY = "log.cleaner.backoff.ms"


@pytest.mark.parametrize("broker_id", [1, ALL_BROKERS])
def test_it_is_taken_for_one_broker_and_for_all(broker_id: int) -> None:
    cluster, controller = a_cluster()
    name = "" if broker_id == ALL_BROKERS else str(broker_id)
    result = outcome(cluster, controller, alter(name, to_set(KEY, "15001"), resource_type=BROKER))
    assert result == AlterConfigsResult(ErrorCode.NONE)
    assert broker_configs_of(controller, broker_id) == {KEY: "15001"}


def test_it_is_no_negative_number() -> None:
    cluster, controller = a_cluster()
    result = outcome(cluster, controller, alter("1", to_set(KEY, "-1"), resource_type=BROKER))
    assert (result.error_code, "Value must be at least 0" in result.error_message) == (ErrorCode.INVALID_REQUEST, True)


def tell(host: CleaningHost, revision: int, **configs: dict[str, str]) -> None:
    ids = {"all": ALL_BROKERS, "own": NODE_ID}
    given = [BrokerConfigs(ids[name], values) for name, values in configs.items()]
    command = UpdateMetadata(revision, False, CLUSTER_ID, 5, [], [], [topic(configs=COMPACTED)], broker_configs=given)
    assert host.control(command).error_code == ErrorCode.NONE


@pytest.fixture
def asleep() -> CleaningHost:
    """It has looked at its logs, found nothing to clean, and sleeps; meanwhile a log has become dirty."""
    host = CleaningHost()
    host.greet(EXCHANGE, READ, WATCH, WATCH + 10)
    host.lead(topic(configs=COMPACTED))
    host.tick()
    host.fill("a", "b", "a", "b", "a")
    assert host.commands == []
    return host


def test_a_cleaner_that_sleeps_already_sleeps_no_longer_than_that(asleep: CleaningHost) -> None:
    tell(asleep, 1, own={KEY: "1000"})
    asleep.tick(700)
    assert asleep.commands == []
    asleep.tick(200)
    assert len(asleep.commands) == 1


def test_it_sleeps_as_before_once_the_change_is_taken_back(asleep: CleaningHost) -> None:
    tell(asleep, 1, all={KEY: "60000"})
    asleep.tick(15_000)
    assert asleep.commands == []
    tell(asleep, 2)
    asleep.tick(1)
    assert len(asleep.commands) == 1


def test_one_brokers_own_value_comes_before_that_of_all(asleep: CleaningHost) -> None:
    tell(asleep, 1, all={KEY: "0"}, own={KEY: "60000"})
    asleep.tick(15_000)
    assert asleep.commands == []
