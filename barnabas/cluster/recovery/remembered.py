"""The content of a backup, parsed.

A backup's author also computes its checksum, so its counts are claims: they are held against the lines that are there
before anything is made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.cluster.backup import Backup, BackupEntry, UnreadableBackup
from barnabas.cluster.cluster_version import VersionRecord
from barnabas.cluster.keys import (
    PARTITIONS_PER_CHUNK,
    BrokerConfigsRecord,
    ClusterRecord,
    ControllerEpochRecord,
    DeletionRecord,
    Keys,
    MemberRecord,
    PartitionChunk,
    PartitionRecord,
    ProducerIdsRecord,
    Role,
    TopicRecord,
    decode_record,
)

PARTITIONS_MAX: Final = 1_000_000
"""Of all topics together: a partition takes about half a kilobyte until the plan is written."""

REPLICATION_FACTOR_MAX: Final = 2**15 - 1
"""What Kafka's protocol can say."""
_TOPIC_ID_DIGITS: Final = 32


@dataclass(slots=True)
class Remembered:
    """Empty if there is no backup."""

    cluster_id: str = ""
    revision: int = -1
    controller_epoch: int = 0
    next_producer_id: int = 0
    version: VersionRecord | None = None
    topics: dict[str, TopicRecord] = field(default_factory=dict)
    chunks: dict[bytes, dict[int, PartitionChunk]] = field(default_factory=dict)
    deletions: dict[bytes, DeletionRecord] = field(default_factory=dict)
    broker_configs: dict[int, dict[str, str]] = field(default_factory=dict)
    logstores: dict[int, MemberRecord] = field(default_factory=dict)
    # Copied unchanged, by key: operators' requests.
    others: dict[str, bytes] = field(default_factory=dict)
    # What can't be read, as lines for the operator.
    problems: list[str] = field(default_factory=list)

    def partitions(self, topic_id: bytes) -> list[PartitionRecord]:
        """Return partitions by number, until the first missing one: a chunk may be unreadable."""
        chunks = self.chunks.get(topic_id, {})
        partitions: list[PartitionRecord] = []
        for number in sorted(chunks):
            if len(partitions) != number * PARTITIONS_PER_CHUNK:
                break
            partitions += chunks[number].partitions
        return partitions

    def node_ids(self) -> set[int]:
        """Return logstores that were members, or have replicas."""
        with_replicas = {
            node_id
            for chunks in self.chunks.values()
            for chunk in chunks.values()
            for partition in chunk.partitions
            for node_id in partition.replicas
        }
        return {*self.logstores, *with_replicas}


def remember(backup: Backup, keys: Keys) -> Remembered:
    """`keys` are those of the prefix that is written to. Raises UnreadableBackup: it counts what it does not have."""
    found = Remembered(revision=backup.header.revision)
    for entry in backup.entries:
        try:
            _put(found, keys, entry.key, entry.value)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            found.problems.append(f"{entry.key} can't be read, and is left out: {type(error).__name__}: {error}")
    _check_counts(backup.entries, keys, found)
    return found


def _check_counts(entries: Sequence[BackupEntry], keys: Keys, found: Remembered) -> None:
    """A topic has no more partitions than its chunks in the file have room for, readable or not; unless a chunk was
    missing in etcd as well, where no controller takes its partitions for deleted either.
    """
    directory = keys.partitions[len(keys.prefix) :]
    chunks = Counter(
        [entry.key.removeprefix(directory)[:_TOPIC_ID_DIGITS] for entry in entries if entry.key.startswith(directory)]
    )
    lines = {entry.key: entry.line for entry in entries}
    for topic in found.topics.values():
        line = lines[keys.topic(topic.topic)[len(keys.prefix) :]]
        partitions_max = chunks[topic.topic_id.hex()] * PARTITIONS_PER_CHUNK
        has = f"line {line}: topic {topic.topic} has {topic.partitions} partitions, and the file has at most"
        if topic.partitions < 1:
            raise UnreadableBackup(f"{has} {partitions_max} of it")
        if topic.partitions > partitions_max:
            found.problems.append(f"{has} {partitions_max} of it: the others are known by log directories alone")
        if not 1 <= topic.replication_factor <= REPLICATION_FACTOR_MAX:
            raise UnreadableBackup(f"line {line}: topic {topic.topic} has {topic.replication_factor} replicas")


def _put(found: Remembered, keys: Keys, key: str, value: bytes) -> None:
    match decode_record(keys, keys.prefix + key, value):
        case None:
            found.problems.append(f"{key} is left out: this version does not know it")
        case VersionRecord() as record:
            found.version = record
        case ClusterRecord() as record:
            found.cluster_id = record.cluster_id
        case ControllerEpochRecord() as record:
            found.controller_epoch = record.controller_epoch
        case ProducerIdsRecord() as record:
            found.next_producer_id = record.next_producer_id
        case MemberRecord() as record:
            if record.role is Role.LOGSTORE:
                found.logstores[int(record.member_id)] = record
        case TopicRecord() as record:
            found.topics[record.topic] = record
        case PartitionChunk() as record:
            found.chunks.setdefault(record.topic_id, {})[record.chunk] = record
        case DeletionRecord() as record:
            found.deletions[record.topic_id] = record
        case BrokerConfigsRecord() as record:
            found.broker_configs[record.broker_id] = record.configs
        case _:
            found.others[key] = value
