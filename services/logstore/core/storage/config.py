"""Topic configuration: every topic key of Kafka 4.3, its default and its bounds.

Storage acts on the sizes, times and timestamp rules of appends and segments. The other keys are checked and kept for
the rooms that act on them, so that a topic's configuration never has to be read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(slots=True, frozen=True)
class TopicConfig:
    """One topic's configuration, in Kafka's own names with underscores. Times in ms, sizes in bytes."""

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
        values: dict[str, int | float | bool | str] = {}
        for name, text in overrides.items():
            parse = _PARSERS.get(name)
            if parse is None:
                return f"Unknown topic config name: {name}"
            value = parse(text)
            if value is None:
                return f"Invalid value {text} for configuration {name}"
            values[name.replace(".", "_")] = value
        return cls(**values)  # type: ignore[arg-type]  # each parser gives its own field's type


def _whole(low: int, high: int) -> Callable[[str], int | None]:
    def parse(text: str) -> int | None:
        try:
            value = int(text.strip())
        except ValueError:
            return None
        return value if low <= value <= high else None

    return parse


def _one_of(*choices: str) -> Callable[[str], str | None]:
    return lambda text: text if text in choices else None


def _level_or_default(low: int, high: int, default: int) -> Callable[[str], int | None]:
    in_range = _whole(low, high)
    return lambda text: default if text.strip() == str(default) else in_range(text)


def _ratio(text: str) -> float | None:
    try:
        value = float(text.strip())
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


def _cleanup_policy(text: str) -> str | None:
    policies = [policy.strip() for policy in text.split(",")]
    return ",".join(policies) if policies and all(policy in ("compact", "delete") for policy in policies) else None


def _throttled_replicas(text: str) -> str | None:
    entries = [entry.strip() for entry in text.split(",")]
    valid = text in ("", "*", "none") or all(
        len(parts := entry.split(":")) == 2 and all(part.isdecimal() for part in parts) for entry in entries
    )
    return text if valid else None


_PARSERS: dict[str, Callable[[str], int | float | bool | str | None]] = {
    "cleanup.policy": _cleanup_policy,
    "compression.gzip.level": _level_or_default(1, 9, -1),
    "compression.lz4.level": _whole(1, 17),
    "compression.type": _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "compression.zstd.level": _whole(-131072, 22),
    "delete.retention.ms": _whole(0, INT64_MAX),
    "file.delete.delay.ms": _whole(0, INT64_MAX),
    "flush.messages": _whole(1, INT64_MAX),
    "flush.ms": _whole(0, INT64_MAX),
    "follower.replication.throttled.replicas": _throttled_replicas,
    "index.interval.bytes": _whole(0, INT32_MAX),
    "leader.replication.throttled.replicas": _throttled_replicas,
    "local.retention.bytes": _whole(-2, INT64_MAX),
    "local.retention.ms": _whole(-2, INT64_MAX),
    "max.compaction.lag.ms": _whole(1, INT64_MAX),
    "max.message.bytes": _whole(0, INT32_MAX),
    "message.timestamp.after.max.ms": _whole(0, INT64_MAX),
    "message.timestamp.before.max.ms": _whole(0, INT64_MAX),
    "message.timestamp.type": _one_of(CREATE_TIME, LOG_APPEND_TIME),
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _whole(0, INT64_MAX),
    "min.insync.replicas": _whole(1, INT32_MAX),
    "preallocate": _boolean,
    "remote.log.copy.disable": _boolean,
    "remote.log.delete.on.disable": _boolean,
    "remote.storage.enable": _boolean,
    "retention.bytes": _whole(-INT64_MAX - 1, INT64_MAX),
    "retention.ms": _whole(-1, INT64_MAX),
    "segment.bytes": _whole(1024 * 1024, INT32_MAX),
    "segment.index.bytes": _whole(4, INT32_MAX),
    "segment.jitter.ms": _whole(0, INT64_MAX),
    "segment.ms": _whole(1, INT64_MAX),
    "unclean.leader.election.enable": _boolean,
}
