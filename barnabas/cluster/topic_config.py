"""TopicConfig: one topic's effective configuration, made of overrides on top of defaults.

The controller refuses by it what no logstore could apply, and logstores use it: one implementation, so that the two
can't disagree. The keys themselves are in `barnabas.cluster.topic_config_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.cluster.config_values import InvalidValue, Value
from barnabas.cluster.topic_config_keys import LOG_APPEND_TIME as LOG_APPEND_TIME
from barnabas.cluster.topic_config_keys import TOPIC_KEYS, UNBOUNDED_RECORD_BYTES, default_of


@dataclass(slots=True, frozen=True)
class TopicConfig:
    """One topic's configuration, in Kafka's own names with underscores. Times in ms, sizes in bytes, lists by comma."""

    cleanup_policy: str = default_of("cleanup.policy")
    compression_gzip_level: int = default_of("compression.gzip.level")
    compression_lz4_level: int = default_of("compression.lz4.level")
    compression_type: str = default_of("compression.type")
    compression_zstd_level: int = default_of("compression.zstd.level")
    delete_retention_ms: int = default_of("delete.retention.ms")
    errors_deadletterqueue_group_enable: bool = default_of("errors.deadletterqueue.group.enable")
    file_delete_delay_ms: int = default_of("file.delete.delay.ms")
    flush_messages: int = default_of("flush.messages")
    flush_ms: int = default_of("flush.ms")
    follower_replication_throttled_replicas: str = default_of("follower.replication.throttled.replicas")
    index_interval_bytes: int = default_of("index.interval.bytes")
    leader_replication_throttled_replicas: str = default_of("leader.replication.throttled.replicas")
    local_retention_bytes: int = default_of("local.retention.bytes")
    local_retention_ms: int = default_of("local.retention.ms")
    max_compaction_lag_ms: int = default_of("max.compaction.lag.ms")
    max_decompressed_message_bytes: int = default_of("max.decompressed.message.bytes")
    max_message_bytes: int = default_of("max.message.bytes")
    message_timestamp_after_max_ms: int = default_of("message.timestamp.after.max.ms")
    message_timestamp_before_max_ms: int = default_of("message.timestamp.before.max.ms")
    message_timestamp_type: str = default_of("message.timestamp.type")
    min_cleanable_dirty_ratio: float = default_of("min.cleanable.dirty.ratio")
    min_compaction_lag_ms: int = default_of("min.compaction.lag.ms")
    min_insync_replicas: int = default_of("min.insync.replicas")
    preallocate: bool = default_of("preallocate")
    remote_copy_lag_bytes: int = default_of("remote.copy.lag.bytes")
    remote_copy_lag_ms: int = default_of("remote.copy.lag.ms")
    remote_log_copy_disable: bool = default_of("remote.log.copy.disable")
    remote_log_delete_on_disable: bool = default_of("remote.log.delete.on.disable")
    remote_storage_enable: bool = default_of("remote.storage.enable")
    retention_bytes: int = default_of("retention.bytes")
    retention_ms: int = default_of("retention.ms")
    segment_bytes: int = default_of("segment.bytes")
    segment_index_bytes: int = default_of("segment.index.bytes")
    segment_jitter_ms: int = default_of("segment.jitter.ms")
    segment_ms: int = default_of("segment.ms")
    unclean_leader_election_enable: bool = default_of("unclean.leader.election.enable")

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, str]) -> TopicConfig | str:
        """Apply `overrides` (Kafka's dotted names) to the defaults; return a message for the client if one is wrong."""
        config = cls.parse(overrides)
        if isinstance(config, str):
            return config
        return config._contradiction() or config

    @classmethod
    def parse(cls, overrides: Mapping[str, str]) -> TopicConfig | str:
        """The same without checking keys against each other: a new default must not stop a topic from working."""
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

    @property
    def is_compacted(self) -> bool:
        """Whether cleanup.policy has `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def opens_batches(self) -> bool:
        """Whether the topic may require a batch to be opened: for its own codec (`compression.type`), a key in every
        record, or the size of each record.
        """
        return (
            self.compression_type != "producer"
            or self.is_compacted
            or self.max_decompressed_message_bytes != UNBOUNDED_RECORD_BYTES
        )

    @property
    def is_deleted(self) -> bool:
        """Whether cleanup.policy has `delete`: records may go by age and size."""
        return "delete" in self.cleanup_policy

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
