"""Topic configuration: Kafka's keys, defaults and bounds."""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig


def test_defaults_are_kafkas() -> None:
    config = TopicConfig.from_overrides({})
    assert isinstance(config, TopicConfig)
    assert (config.segment_bytes, config.segment_ms, config.index_interval_bytes) == (1 << 30, 604_800_000, 4096)
    assert (config.max_message_bytes, config.message_timestamp_after_max_ms) == (1_048_588, 3_600_000)
    assert (config.flush_messages, config.flush_ms) == (2**63 - 1, 2**63 - 1)


def test_overrides_are_parsed_by_their_kafka_names() -> None:
    config = TopicConfig.from_overrides(
        {
            "segment.bytes": "1048576",
            "cleanup.policy": "compact, delete",
            "message.timestamp.type": "LogAppendTime",
            "min.cleanable.dirty.ratio": "0.25",
            "preallocate": "TRUE",
            "retention.ms": "-1",
            "leader.replication.throttled.replicas": "0:1,1:2",
        }
    )
    assert isinstance(config, TopicConfig)
    assert (config.segment_bytes, config.cleanup_policy, config.retention_ms) == (1 << 20, "compact,delete", -1)
    assert (config.min_cleanable_dirty_ratio, config.preallocate) == (0.25, True)
    assert config.message_timestamp_type == "LogAppendTime"


def test_an_unknown_key_is_named() -> None:
    assert TopicConfig.from_overrides({"segment.byte": "1"}) == "Unknown topic config name: segment.byte"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", "soon", "Not a number of type LONG"),
        ("retention.ms", "9" * 5000, "Value must be no more than 9223372036854775807"),
        ("max.message.bytes", "2147483648", "Value must be no more than 2147483647"),
        ("segment.bytes", "1048575", "Value must be at least 1048576"),
        ("cleanup.policy", "compact,archive", "String must be one of: compact, delete"),
        ("compression.type", "brotli", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Value must be no more than 1"),
        ("segment.ms", "0", "Value must be at least 1"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("cleanup.policy", "", "String must be one of: compact, delete"),
        (
            "leader.replication.throttled.replicas",
            "1:2,",
            "must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],...",
        ),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("message.timestamp.type", "createtime", "String must be one of: CreateTime, LogAppendTime"),
    ],
)
def test_values_out_of_range_are_refused(name: str, value: str, problem: str) -> None:
    assert (
        TopicConfig.from_overrides({name: value}) == f"Invalid value {value[:100]} for configuration {name}: {problem}"
    )


def test_a_lag_that_contradicts_itself_is_refused() -> None:
    error = TopicConfig.from_overrides({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})
    assert isinstance(error, str)
    assert error.startswith("conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)")


@pytest.mark.parametrize(
    "configs",
    [
        {"retention.ms": "-1", "retention.bytes": "-1"},
        {"compression.type": "zstd", "compression.zstd.level": "-131072"},
        {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "0:1,1:2"},
        {"preallocate": "TRUE", "min.cleanable.dirty.ratio": "0.5"},
    ],
)
def test_values_in_range_are_taken(configs: dict[str, str]) -> None:
    assert isinstance(TopicConfig.from_overrides(configs), TopicConfig)


def test_tiered_storage_is_refused_as_kafka_does_where_it_is_off() -> None:
    error = TopicConfig.from_overrides({"remote.storage.enable": "true"})
    assert isinstance(error, str)
    assert error.startswith("Tiered Storage functionality is disabled")
    assert isinstance(TopicConfig.from_overrides({"remote.storage.enable": "false"}), TopicConfig)
