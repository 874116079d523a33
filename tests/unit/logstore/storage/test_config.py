"""Topic configuration: Kafka's keys, defaults and bounds."""

from __future__ import annotations

import pytest

from services.logstore.core.storage.config import TopicConfig


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
    ("name", "value"),
    [
        ("segment.bytes", "1048575"),
        ("segment.bytes", "2147483648"),
        ("segment.bytes", "many"),
        ("segment.ms", "0"),
        ("flush.messages", "0"),
        ("max.message.bytes", "-1"),
        ("message.timestamp.type", "createtime"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "purge"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("preallocate", "yes"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("retention.ms", "-2"),
        ("leader.replication.throttled.replicas", "0"),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_key_and_value(name: str, value: str) -> None:
    assert TopicConfig.from_overrides({name: value}) == f"Invalid value {value} for configuration {name}"
