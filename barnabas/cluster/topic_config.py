"""Topic configuration: every topic key of Kafka 4.3, its default, its bounds and what is said of a wrong value.

The controller refuses by it what no logstore could take, and logstores act on it: one place, so that the two can't
disagree. Source: Kafka's `LogConfig` (storage.internals.log), its messages included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

Value = int | float | bool | str


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
        values: dict[str, Value] = {}
        for name, text in overrides.items():
            parse = _PARSERS.get(name)
            if parse is None:
                return f"Unknown topic config name: {name}"
            try:
                values[name.replace(".", "_")] = parse(text)
            except _ValueRefusedError as problem:
                return f"Invalid value {text[:100]} for configuration {name}: {problem}"
        config = cls(**values)  # type: ignore[arg-type]  # each parser gives its own field's type
        if config.remote_storage_enable:
            return (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            return (
                f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
                f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
            )
        return config


class _ValueRefusedError(Exception):
    """What is wrong with a value, in Kafka's words."""


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = text.strip()
        unsigned = digits.removeprefix("-")
        if not unsigned.isascii() or not unsigned.isdigit():
            raise _ValueRefusedError(f"Not a number of type {'INT' if high <= INT32_MAX else 'LONG'}")
        # Longer than any number in range: int() of a hostile string of digits takes quadratic time.
        if len(digits) > 20 or int(digits) > high:
            raise _ValueRefusedError(f"Value must be no more than {high}")
        if int(digits) < low:
            raise _ValueRefusedError(f"Value must be at least {low}")
        return int(digits)

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise _ValueRefusedError(f"String must be one of: {', '.join(choices)}")
        return text

    return parse


def _level_or_default(low: int, high: int, default: int) -> Callable[[str], int]:
    in_range = _whole(min(low, default), high)

    def parse(text: str) -> int:
        level = in_range(text)
        if level < low and level != default:
            raise _ValueRefusedError(f"Value must be between {low} and {high} or equal to {default}")
        return level

    return parse


def _ratio(text: str) -> float:
    try:
        value = float(text.strip())
    except ValueError:
        raise _ValueRefusedError("Not a number of type DOUBLE") from None
    if not 0.0 <= value <= 1.0:
        raise _ValueRefusedError("Value must be at least 0" if value < 0 else "Value must be no more than 1")
    return value


def _boolean(text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise _ValueRefusedError("Expected value to be either true or false")
    return value


def _cleanup_policy(text: str) -> str:
    policies = [policy.strip() for policy in text.split(",")]
    if not all(policy in ("compact", "delete") for policy in policies):
        raise _ValueRefusedError("String must be one of: compact, delete")
    return ",".join(policies)


def _throttled_replicas(text: str) -> str:
    entries = [entry.strip() for entry in text.split(",")]
    if text.strip() not in ("", "*", "none") and not all(map(_is_partition_and_broker, entries)):
        raise _ValueRefusedError(
            "must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],..."
        )
    return text.strip()


def _is_partition_and_broker(entry: str) -> bool:
    partition, colon, broker = entry.partition(":")
    return bool(colon) and partition.isdecimal() and broker.isdecimal()


_PARSERS: dict[str, Callable[[str], Value]] = {
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
