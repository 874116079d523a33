"""TopicConfig: one topic's configuration as the log acts on it, made of overrides on top of defaults.

The controller refuses by it what no logstore could take, and logstores act on it: one place, so that the two can't
disagree. The keys themselves are in `barnabas.cluster.topic_config_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.cluster.config_values import INT64_MAX, InvalidValue, Value
from barnabas.cluster.topic_config_keys import CREATE_TIME, DAY_MS, TOPIC_KEYS
from barnabas.cluster.topic_config_keys import LOG_APPEND_TIME as LOG_APPEND_TIME


@dataclass(slots=True, frozen=True)
class TopicConfig:
    """One topic's configuration, in Kafka's own names with underscores. Times in ms, sizes in bytes, lists by comma."""

    cleanup_policy: str = "delete"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    follower_replication_throttled_replicas: str = ""
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: str = ""
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str]) -> TopicConfig | str:
        """Defaults with `overrides` (Kafka's dotted names) on top; a message for the client if one is wrong."""
        config = cls.parse(overrides)
        if isinstance(config, str):
            return config
        return config._contradiction() or config

    @classmethod
    def parse(cls, overrides: Mapping[str, str]) -> TopicConfig | str:
        """The same without a look at what contradicts each other: a new default must not stop a topic from working."""
        for name in overrides:
            if name not in TOPIC_KEYS:
                return f"Unknown topic config name: {name}"
        values: dict[str, Value] = {}
        for name in sorted(overrides):
            try:
                value = TOPIC_KEYS[name].parse(overrides[name])
            except InvalidValue as problem:
                return str(problem)
            values[name.replace(".", "_")] = ",".join(value) if isinstance(value, tuple) else value
        return cls(**values)  # type: ignore[arg-type]  # each key gives its own field's type

    def _contradiction(self) -> str | None:
        if self.remote_storage_enable:
            return (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            return (
                f"conflict topic config setting min.compaction.lag.ms ({self.min_compaction_lag_ms}) > "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )
        return None
