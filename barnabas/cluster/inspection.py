"""The content of one stopped logstore's disks, as `barnabas inspect` reports it: enough to register its partitions in
etcd again. Values, and their JSON for files that are copied between hosts.

`latest_epoch` is the last leader epoch that the log has, -1 if none; offsets are those that a start of the logstore
would find, including recovery. `high_watermark` is the last one in the checkpoint: records below it were committed, and
may have been acknowledged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import msgspec

from barnabas.wire.topic_names import topic_name_problem

VERSION: Final = 1
_TOPIC_ID: Final = re.compile("[0-9a-f]{32}")
_NO_ID: Final = "0" * 32


class InspectionRefused(Exception):  # noqa: N818  (an outcome that ends the command with its one line)
    """Why directories were not inspected."""


class UnreadableInspection(ValueError):  # noqa: N818 - it names what was found
    """The content is not an inspection that this version can read."""


@dataclass(slots=True, frozen=True)
class PartitionFound:
    topic: str
    # 32 hexadecimal digits, as in etcd's keys; empty if `partition.metadata` is missing or torn.
    topic_id: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    latest_epoch: int
    high_watermark: int = 0


@dataclass(slots=True, frozen=True)
class KnownTopic:
    """What a log directory's register contains about a topic, whether it has partitions of it or not."""

    topic: str
    topic_id: str
    partitions: int
    configs: dict[str, str]


@dataclass(slots=True, frozen=True)
class Register:
    """The topics and configs of the cluster as one logstore last received them (`topic-register` in a log directory).

    A later one has a greater (controller_epoch, revision).
    """

    controller_epoch: int
    revision: int
    topics: list[KnownTopic] = field(default_factory=list)
    # By broker id; -1 for those of all brokers.
    broker_configs: dict[int, dict[str, str]] = field(default_factory=dict)
    # Logstores that were registered then, and those that have replicas.
    node_ids: list[int] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class LogDirFound:
    path: str
    directory_id: str
    shut_down_cleanly: bool
    partitions: list[PartitionFound]
    # Directories that were set aside, by name: they are ignored.
    strays: list[str] = field(default_factory=list)
    register: Register | None = None


@dataclass(slots=True, frozen=True)
class NodeInspection:
    cluster_id: str
    node_id: int
    log_dirs: list[LogDirFound]
    # Directories that this logstore has had and that were not inspected.
    missing_log_dirs: list[str] = field(default_factory=list)
    # The largest producer id in any of the logs; -1 without one.
    producer_id_max: int = -1
    version: int = VERSION


def encode_inspection(inspection: NodeInspection) -> bytes:
    return msgspec.json.format(msgspec.json.encode(inspection), indent=1) + b"\n"


def decode_inspection(content: bytes) -> NodeInspection:
    """Raises UnreadableInspection."""
    try:
        version = msgspec.json.decode(content, type=dict[str, object]).get("version")
        if version != VERSION:
            raise UnreadableInspection(f"it is of version {version}, and this Barnabas reads version {VERSION}")
        inspection = msgspec.json.decode(content, type=NodeInspection)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableInspection(f"it is not what `barnabas inspect` prints: {error}") from None
    problem = inspection_problem(inspection)
    if problem is not None:
        raise UnreadableInspection(problem)
    return inspection


def inspection_problem(inspection: NodeInspection) -> str | None:
    """Return what no logstore has, since the file, or the disk, may be of anyone's making; None if there is nothing."""
    for log_dir in inspection.log_dirs:
        named = [(log.topic, log.topic_id or _NO_ID, log.partition) for log in log_dir.partitions]
        if log_dir.register is not None:
            named += [(topic.topic, topic.topic_id, topic.partitions) for topic in log_dir.register.topics]
        for topic, topic_id, count in named:
            problem = topic_name_problem(topic)
            if problem is not None:
                return f"{log_dir.path} names a topic that none can be: {problem}"
            if not _TOPIC_ID.fullmatch(topic_id):
                return f"{log_dir.path} has {topic_id!r} for the id of {topic}"
            if count < 0:
                return f"{log_dir.path} has {count} for a partition, or the partitions, of {topic}"
    return None
