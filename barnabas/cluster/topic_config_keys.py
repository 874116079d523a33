"""Every configuration key of a topic in Kafka 4.4: type, default, bounds, effect, and the broker keys it inherits from.

This table is the only declaration of each: `TopicConfig` and the settings of logstores take defaults and bounds from
it.

A topic's key inherits from the broker keys named in `synonyms`, the first that is set (KIP-226). Sources: Kafka's
LogConfig and ServerTopicConfigSynonyms; a test compares names, types, defaults and synonyms with Kafka's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from barnabas.cluster.config_values import INT32_MAX, INT64_MAX, ConfigKey, ConfigType, Range, Value

MINUTE_MS: Final = 60 * 1000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"

UNBOUNDED_RECORD_BYTES: Final = INT32_MAX - 8
"""The longest array of Java: `max.decompressed.message.bytes` where it is no bound."""

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST


@dataclass(slots=True, frozen=True)
class Synonym:
    """A broker key that topics inherit; its number times `factor` is the topic's."""

    name: str
    factor: int = 1


@dataclass(slots=True, frozen=True)
class TopicKey(ConfigKey):
    synonyms: tuple[Synonym, ...] = ()


def _throttled_replicas(name: str, role: str) -> TopicKey:
    def check(value: Value) -> str | None:
        assert isinstance(value, tuple)
        if value in ((), ("*",)) or all(map(_is_partition_and_broker, value)):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return TopicKey(name, _LIST, "", f"Replicas whose {role} replication is throttled: * or partition:broker.", check)


def _is_partition_and_broker(entry: str) -> bool:
    partition, colon, broker = entry.partition(":")
    return bool(colon) and all(each.isascii() and each.isdecimal() for each in (partition, broker))


_KEYS: Final = (
    TopicKey(
        "cleanup.policy",
        _LIST,
        "delete",
        "How old data is removed: delete drops old segments, compact keeps the last record of each key.",
        choices=("compact", "delete"),
        synonyms=(Synonym("log.cleanup.policy"),),
    ),
    TopicKey(
        "compression.gzip.level",
        _INT,
        "-1",
        "Compression level of gzip, from 1 to 9; -1 is its default.",
        Range(1, 9, -1),
        synonyms=(Synonym("compression.gzip.level"),),
    ),
    TopicKey(
        "compression.lz4.level",
        _INT,
        "9",
        "Compression level of lz4, from 1 to 17.",
        Range(1, 17),
        synonyms=(Synonym("compression.lz4.level"),),
    ),
    TopicKey(
        "compression.type",
        _STRING,
        "producer",
        "Codec of stored batches; producer keeps the codec of each batch.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=(Synonym("compression.type"),),
    ),
    TopicKey(
        "compression.zstd.level",
        _INT,
        "3",
        "Compression level of zstd, from -131072 to 22.",
        Range(-131072, 22),
        synonyms=(Synonym("compression.zstd.level"),),
    ),
    TopicKey(
        "delete.retention.ms",
        _LONG,
        str(DAY_MS),
        "How long compaction keeps tombstones, so that a consumer that started at the beginning sees every deletion.",
        Range(0),
        synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
    ),
    TopicKey(
        "errors.deadletterqueue.group.enable",
        _BOOLEAN,
        "false",
        "Whether share groups, which Barnabas does not have, may write to the topic what they could not deliver.",
    ),
    TopicKey(
        "file.delete.delay.ms",
        _LONG,
        str(MINUTE_MS),
        "How long the files of a deleted segment stay on disk.",
        Range(0),
        synonyms=(Synonym("log.segment.delete.delay.ms"),),
    ),
    TopicKey(
        "flush.messages",
        _LONG,
        str(INT64_MAX),
        "Flush the log to disk after this many records.",
        Range(1),
        synonyms=(Synonym("log.flush.interval.messages"),),
    ),
    TopicKey(
        "flush.ms",
        _LONG,
        str(INT64_MAX),
        "Flush the log to disk when a record has waited this long.",
        Range(0),
        synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    ),
    _throttled_replicas("follower.replication.throttled.replicas", "follower side"),
    TopicKey(
        "index.interval.bytes",
        _INT,
        "4096",
        "Bytes of log between two entries of the offset index.",
        Range(0),
        synonyms=(Synonym("log.index.interval.bytes"),),
    ),
    _throttled_replicas("leader.replication.throttled.replicas", "leader side"),
    TopicKey(
        "local.retention.bytes",
        _LONG,
        "-2",
        "With tiered storage: bytes kept on local disk; -2 follows retention.bytes.",
        Range(-2),
        synonyms=(Synonym("log.local.retention.bytes"),),
    ),
    TopicKey(
        "local.retention.ms",
        _LONG,
        "-2",
        "With tiered storage: time kept on local disk; -2 follows retention.ms.",
        Range(-2),
        synonyms=(Synonym("log.local.retention.ms"),),
    ),
    TopicKey(
        "max.compaction.lag.ms",
        _LONG,
        str(INT64_MAX),
        "Maximum time before a record is compacted.",
        Range(1),
        synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
    ),
    TopicKey(
        "max.decompressed.message.bytes",
        _INT,
        str(UNBOUNDED_RECORD_BYTES),
        "Maximum size of a record of a compressed batch, decompressed; below 64 MiB every such batch is opened for it.",
        Range(1, UNBOUNDED_RECORD_BYTES),
        synonyms=(Synonym("max.decompressed.message.bytes"),),
    ),
    TopicKey(
        "max.message.bytes",
        _INT,
        "1048588",
        "Maximum size of a batch as it is sent, compressed or not.",
        Range(0),
        synonyms=(Synonym("message.max.bytes"),),
    ),
    TopicKey(
        "message.timestamp.after.max.ms",
        _LONG,
        str(HOUR_MS),
        "Maximum time that a record's create time may be ahead of the broker's clock.",
        Range(0),
        synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
    ),
    TopicKey(
        "message.timestamp.before.max.ms",
        _LONG,
        str(INT64_MAX),
        "Maximum time that a record's create time may be behind the broker's clock.",
        Range(0),
        synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
    ),
    TopicKey(
        "message.timestamp.type",
        _STRING,
        CREATE_TIME,
        "Whether records carry the time of their creation or of their append.",
        choices=(CREATE_TIME, LOG_APPEND_TIME),
        synonyms=(Synonym("log.message.timestamp.type"),),
    ),
    TopicKey(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        "Minimum fraction of a log that is not compacted yet for it to be cleaned.",
        Range(0, 1),
        synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
    ),
    TopicKey(
        "min.compaction.lag.ms",
        _LONG,
        "0",
        "Minimum age of a record before it is compacted.",
        Range(0),
        synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
    ),
    TopicKey(
        "min.insync.replicas",
        _INT,
        "1",
        "Minimum replicas in sync for a produce with acks=all to be accepted.",
        Range(1),
        synonyms=(Synonym("min.insync.replicas"),),
    ),
    TopicKey(
        "preallocate",
        _BOOLEAN,
        "false",
        "Whether a new segment's file is preallocated.",
        synonyms=(Synonym("log.preallocate"),),
    ),
    TopicKey(
        "remote.copy.lag.bytes",
        _LONG,
        "-1",
        "With tiered storage: bytes of newer log at which a segment is copied to it; -1 follows local.retention.bytes.",
        Range(-1),
        synonyms=(Synonym("log.remote.copy.lag.bytes"),),
    ),
    TopicKey(
        "remote.copy.lag.ms",
        _LONG,
        "0",
        "With tiered storage: age at which a segment is copied to it; -1 follows local.retention.ms.",
        Range(-1),
        synonyms=(Synonym("log.remote.copy.lag.ms"),),
    ),
    TopicKey(
        "remote.log.copy.disable",
        _BOOLEAN,
        "false",
        "With tiered storage: whether nothing more is copied to it.",
    ),
    TopicKey(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        "false",
        "With tiered storage: whether turning it off deletes what it holds.",
    ),
    TopicKey(
        "remote.storage.enable",
        _BOOLEAN,
        "false",
        "Whether the topic uses tiered storage, which Barnabas does not have.",
    ),
    TopicKey(
        "retention.bytes",
        _LONG,
        "-1",
        "Old segments are deleted while a partition is larger than this; -1 is unlimited.",
        synonyms=(Synonym("log.retention.bytes"),),
    ),
    TopicKey(
        "retention.ms",
        _LONG,
        str(7 * DAY_MS),
        "Segments are deleted when their last record is older than this; -1 is unlimited.",
        Range(-1),
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
    ),
    TopicKey(
        "segment.bytes",
        _INT,
        "1073741824",
        "A segment is closed before it grows beyond this.",
        Range(1024 * 1024, INT32_MAX),
        synonyms=(Synonym("log.segment.bytes"),),
    ),
    TopicKey(
        "segment.index.bytes",
        _INT,
        "10485760",
        "A segment is closed when its offset index has reached this size.",
        Range(4),
        synonyms=(Synonym("log.index.size.max.bytes"),),
    ),
    TopicKey(
        "segment.jitter.ms",
        _LONG,
        "0",
        "Maximum random reduction of segment.ms, so that segments do not all close at once.",
        Range(0),
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
    ),
    TopicKey(
        "segment.ms",
        _LONG,
        str(7 * DAY_MS),
        "A segment is closed at this age, even if it is not full.",
        Range(1),
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
    ),
    TopicKey(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        "Whether a replica that is not in sync may be elected when no other is left, which loses records.",
        synonyms=(Synonym("unclean.leader.election.enable"),),
    ),
)

TOPIC_KEYS: Final[dict[str, TopicKey]] = {key.name: key for key in _KEYS}
"""All keys by name, in the order of the names."""


def default_of(name: str) -> Any:
    """Return the default of a topic's key as a value of the key's type; a list as text, separated by commas."""
    key = TOPIC_KEYS[name]
    assert key.default is not None
    value = key.parse(key.default)
    return ",".join(value) if isinstance(value, tuple) else value
