"""The topic configs that Kafka 4.3 knows, and which values it takes (storage.internals.log.LogConfig)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


def _integer(minimum: int, maximum: int = _LONG_MAX) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        digits = text.strip()
        if not digits.removeprefix("-").isascii() or not digits.removeprefix("-").isdigit():
            return f"Not a number of type {'INT' if maximum == _INT_MAX else 'LONG'}"
        # Longer than any number in range: int() of a hostile string of digits takes quadratic time.
        if len(digits) > 20 or int(digits) > maximum:
            return f"Value must be no more than {maximum}"
        return None if int(digits) >= minimum else f"Value must be at least {minimum}"

    return check


def _ratio(text: str) -> str | None:
    try:
        value = float(text)
    except ValueError:
        return "Not a number of type DOUBLE"
    return None if 0 <= value <= 1 else f"Value must be {'at least 0' if value < 0 else 'no more than 1'}"


def _boolean(text: str) -> str | None:
    return None if text.strip().lower() in ("true", "false") else "Expected value to be either true or false"


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    return lambda text: None if text in allowed else f"String must be one of: {', '.join(allowed)}"


def _cleanup_policy(text: str) -> str | None:
    policies = [policy.strip() for policy in text.split(",")]
    if all(policy in ("compact", "delete") for policy in policies):
        return None
    return "String must be one of: compact, delete"


def _throttled_replicas(text: str) -> str | None:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if text.strip() == "*" or all(_is_partition_and_broker(entry) for entry in entries):
        return None
    return "must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],..."


def _is_partition_and_broker(entry: str) -> bool:
    partition, colon, broker = entry.partition(":")
    return bool(colon) and partition.isdigit() and broker.isdigit()


TOPIC_CONFIGS: Mapping[str, Callable[[str], str | None]] = {
    "cleanup.policy": _cleanup_policy,
    "compression.gzip.level": _integer(-1, 9),
    "compression.lz4.level": _integer(1, 17),
    "compression.type": _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "compression.zstd.level": _integer(-131072, 22),
    "delete.retention.ms": _integer(0),
    "file.delete.delay.ms": _integer(0),
    "flush.messages": _integer(1),
    "flush.ms": _integer(0),
    "follower.replication.throttled.replicas": _throttled_replicas,
    "index.interval.bytes": _integer(0, _INT_MAX),
    "leader.replication.throttled.replicas": _throttled_replicas,
    "max.compaction.lag.ms": _integer(1),
    "max.message.bytes": _integer(0, _INT_MAX),
    "message.timestamp.after.max.ms": _integer(0),
    "message.timestamp.before.max.ms": _integer(0),
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _integer(0),
    "min.insync.replicas": _integer(1, _INT_MAX),
    "preallocate": _boolean,
    "retention.bytes": _integer(-1),
    "retention.ms": _integer(-1),
    "segment.bytes": _integer(1024 * 1024, _INT_MAX),
    "segment.index.bytes": _integer(4, _INT_MAX),
    "segment.jitter.ms": _integer(0),
    "segment.ms": _integer(1),
    "unclean.leader.election.enable": _boolean,
}


def config_error(configs: Mapping[str, str]) -> str | None:
    """What is wrong with a topic's configs, in Kafka's words; None when nothing is."""
    for name, text in configs.items():
        check = TOPIC_CONFIGS.get(name)
        if check is None:
            return f"Unknown topic config name: {name}"
        problem = check(text)
        if problem is not None:
            return f"Invalid value {text[:100]} for configuration {name}: {problem}"
    if int(configs.get("min.compaction.lag.ms", 0)) > int(configs.get("max.compaction.lag.ms", _LONG_MAX)):
        return (
            f"conflict topic config setting min.compaction.lag.ms ({configs['min.compaction.lag.ms']}) > "
            f"max.compaction.lag.ms ({configs['max.compaction.lag.ms']})"
        )
    return None
