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
    ("name", "value", "message"),
    [
        # As Kafka 4.3's LogConfig.validate says it.
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", "1e3", "Invalid value 1e3 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        (
            "max.message.bytes",
            "2147483648",
            "Invalid value 2147483648 for configuration max.message.bytes: Not a number of type INT",
        ),
        ("max.message.bytes", "1_0", "Invalid value 1_0 for configuration max.message.bytes: Not a number of type INT"),
        ("segment.bytes", "100", "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "cleanup.policy",
            "compact,archive",
            "Invalid value archive for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "compact,,delete", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "compression.type",
            "GZIP",
            "Invalid value GZIP for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "x",
            "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "leader.replication.throttled.replicas",
            "*,0:1",
            "Invalid value [*, 0:1] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        ("nonsense", "1", "Unknown topic config name: nonsense"),
        # Ours: NaN is in Kafka's range.
        (
            "min.cleanable.dirty.ratio",
            "NaN",
            "Invalid value NaN for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
        ),
        (
            "retention.ms",
            "9" * 5000,
            f"Invalid value {'9' * 100} for configuration retention.ms: Not a number of type LONG",
        ),
    ],
)
def test_wrong_values_are_refused_in_kafkas_words(name: str, value: str, message: str) -> None:
    assert TopicConfig.from_overrides({name: value}) == message


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("max.message.bytes", " 5 ", 5),
        ("max.message.bytes", "+5", 5),
        ("cleanup.policy", "", ""),
        ("cleanup.policy", " compact , delete ", "compact,delete"),
        ("cleanup.policy", "delete,delete", "delete"),
        ("preallocate", " TRUE ", True),
        ("compression.type", " gzip ", "gzip"),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("leader.replication.throttled.replicas", "0:1, 1:2", "0:1,1:2"),
        ("retention.bytes", "-5", -5),
    ],
)
def test_values_are_read_as_kafka_reads_them(name: str, value: str, parsed: object) -> None:
    config = TopicConfig.from_overrides({name: value})
    assert isinstance(config, TopicConfig)
    assert getattr(config, name.replace(".", "_")) == parsed


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


def test_a_hostile_list_is_read_in_linear_time() -> None:
    """Splitting by blanks around commas took quadratic time: minutes for this one."""
    assert isinstance(TopicConfig.from_overrides({"cleanup.policy": "a" + " " * 500_000 + "b"}), str)
