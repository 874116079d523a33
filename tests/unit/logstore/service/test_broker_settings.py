"""A logstore's configs: open logs follow changes at once, topics and the broker are described."""

from __future__ import annotations

import pytest

from barnabas.cluster.administration import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedResource,
)
from barnabas.cluster.config_description import ConfigSource, Setting
from barnabas.cluster.messages import ALL_BROKERS, BrokerConfigs, LeaderAndIsr, TopicMetadata, UpdateMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from tests.unit.logstore.service.support import CLUSTER_ID, NODE_ID, TOPIC, WATCH, Host, states, topic

OTHER_ID = bytes(range(16, 32))
SETTINGS = {
    "log.segment.bytes": Setting("2000000", "1073741824", True),
    "num.io.threads": Setting("8", "8", False),
}


@pytest.fixture
def host() -> Host:
    host = Host(settings=SETTINGS, topic_defaults={"segment.bytes": "2000000"})
    host.lead(full=True)
    return host


def update(revision: int, *topics: TopicMetadata, **configs: dict[str, str]) -> UpdateMetadata:
    """With configs of `all` brokers, of this one (`own`) and of an`other` one."""
    ids = {"all": ALL_BROKERS, "own": NODE_ID, "other": NODE_ID + 1}
    given = [BrokerConfigs(ids[name], values) for name, values in configs.items()]
    return UpdateMetadata(revision, False, CLUSTER_ID, 5, [], [], list(topics), broker_configs=given)


def tell(host: Host, revision: int, *topics: TopicMetadata, **configs: dict[str, str]) -> None:
    assert host.control(update(revision, *topics, **configs)).error_code == ErrorCode.NONE


def config(host: Host, name: str = TOPIC) -> TopicConfig:
    return host.core._replicas.by_name[name, 0].log.config


def describe(host: Host, resource_type: int, name: str, *keys: str) -> DescribedResource:
    resource = ConfigResource(resource_type, name, not keys, list(keys))
    assert host.core.on_administration(1, DescribeConfigsRequest([resource], True, False))
    ((_, response),) = [answer for out in host.settle() for answer in out.administration]
    assert isinstance(response, DescribeConfigsResponse)
    (described,) = response.results
    return described


def test_logs_follow_the_configs_of_all_brokers_and_this_ones_own_before_these(host: Host) -> None:
    tell(host, 1, topic())
    assert config(host).segment_bytes == 2_000_000
    tell(host, 2, all={"log.segment.bytes": "3000000", "log.retention.ms": "5"}, other={"log.segment.bytes": "9000000"})
    assert (config(host).segment_bytes, config(host).retention_ms) == (3_000_000, 5)
    tell(host, 3, all={"log.segment.bytes": "3000000"}, own={"log.segment.bytes": "4000000"})
    assert (config(host).segment_bytes, config(host).retention_ms) == (4_000_000, TopicConfig().retention_ms)
    tell(host, 4)
    assert config(host).segment_bytes == 2_000_000


def alone(**configs: str) -> TopicMetadata:
    """Of two replicas only this one is in sync."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    return topic(1, replicas=[NODE_ID, 2], in_sync_replicas=[NODE_ID], configs=settings)


def test_a_leader_goes_by_the_minimum_of_all_brokers_from_its_first_command_on() -> None:
    """UpdateMetadata comes later; until then a static minimum that is lower would commit records of one replica."""
    host = Host(topic_defaults={"min.insync.replicas": "1"})
    raised = [BrokerConfigs(ALL_BROKERS, {"min.insync.replicas": "2"})]
    assert not host.control(LeaderAndIsr(True, [alone()], revision=7, broker_configs=raised)).partition_errors
    (partition,) = host.core._replicas.by_key.values()
    assert partition.leading
    assert host.core._replicas.image.revision == -1, "there was no UpdateMetadata"
    assert partition.check_append(1, acks=-1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.check_append(1, acks=1) == ErrorCode.NONE


def test_configs_that_come_with_partitions_do_not_replace_newer_ones(host: Host) -> None:
    tell(host, 8, topic(), all={"log.segment.bytes": "3000000"})
    older = [BrokerConfigs(ALL_BROKERS, {"log.segment.bytes": "9000000"})]
    host.control(LeaderAndIsr(True, [topic()], revision=7, broker_configs=older))
    assert config(host).segment_bytes == 3_000_000
    host.control(LeaderAndIsr(True, [topic()], revision=9, broker_configs=older))
    assert config(host).segment_bytes == 9_000_000
    host.control(LeaderAndIsr(True, [topic()]))
    assert config(host).segment_bytes == 9_000_000, "a controller of an earlier version sends none"


def test_an_override_goes_before_any_default(host: Host) -> None:
    overridden = topic(name="own", topic_id=OTHER_ID, configs={"segment.bytes": "5000000"})
    host.lead(overridden)
    tell(host, 1, topic(), overridden, all={"log.segment.bytes": "3000000"})
    assert (config(host).segment_bytes, config(host, "own").segment_bytes) == (3_000_000, 5_000_000)


def test_a_new_topic_gets_the_changed_defaults(host: Host) -> None:
    tell(host, 1, topic(), all={"log.segment.bytes": "3000000"})
    host.lead(topic(name="new", topic_id=OTHER_ID))
    assert config(host, "new").segment_bytes == 3_000_000


def test_a_default_that_contradicts_an_override_does_not_stop_the_topic(host: Host) -> None:
    overridden = topic(1, configs={"max.compaction.lag.ms": "5"})
    tell(host, 1, overridden, all={"log.cleaner.min.compaction.lag.ms": "10"})
    assert host.lead(overridden).partition_errors == []
    assert (config(host).min_compaction_lag_ms, config(host).max_compaction_lag_ms) == (10, 5)


@pytest.mark.parametrize("by_metadata", [True, False])
def test_whether_the_isr_is_large_enough_is_sent_again(host: Host, by_metadata: bool) -> None:
    host.greet(WATCH)
    host.lead(alone())
    (state,) = host.watch()
    assert state.in_sync_replicas_at_minimum
    stricter = alone(min_insync_replicas="2")
    body = update(1, stricter) if by_metadata else LeaderAndIsr(full=False, topics=[stricter])
    host.core.on_control(7, host.command(body))
    (state,) = [state for out in host.settle() for state in states(out)]
    assert not state.in_sync_replicas_at_minimum


def test_a_topic_is_described_as_it_is_here(host: Host) -> None:
    elsewhere = topic(name="elsewhere", topic_id=OTHER_ID, leader=2, replicas=[2], in_sync_replicas=[2])
    tell(host, 1, topic(configs={"flush.ms": "7"}), elsewhere, all={"log.retention.ms": "5"})
    described = {each.name: each for each in describe(host, 2, TOPIC).configs}
    assert (described["flush.ms"].value, described["flush.ms"].source) == ("7", ConfigSource.TOPIC)
    assert (described["retention.ms"].value, described["retention.ms"].source) == ("5", 3)
    assert (described["segment.bytes"].value, described["segment.bytes"].source) == ("2000000", 4)
    (found,) = describe(host, 2, "elsewhere", "segment.bytes").configs
    assert [(each.value, each.source) for each in found.synonyms] == [("2000000", 4), ("1073741824", 5)]


def test_the_broker_describes_itself_and_no_other(host: Host) -> None:
    tell(host, 1, topic(), own={"log.segment.bytes": "4000000"})
    described = {each.name: each for each in describe(host, 4, str(NODE_ID)).configs}
    assert described.keys() == SETTINGS.keys()
    assert (described["log.segment.bytes"].value, described["log.segment.bytes"].source) == ("4000000", 2)
    assert described["num.io.threads"].read_only
    assert describe(host, 4, "7").error_code == ErrorCode.INVALID_REQUEST
    assert describe(host, 16, str(NODE_ID)).error_code == ErrorCode.INVALID_REQUEST
    assert describe(host, 2, "nobody").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
