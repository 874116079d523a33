"""The small text files of a log directory, in Kafka's formats.

A checkpoint is `<version>`, `<count>`, then one line per entry. A reader that finds anything else gets None: a torn
checkpoint is as good as none, and recovery then starts further back.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN_MARKER = ".kafka_cleanshutdown"
KERNEL_BOOT_ID = "kernel-boot-id"

CHECKPOINT_VERSION = 0

TopicPartition = tuple[str, int]


def format_checkpoint(lines: list[str]) -> bytes:
    return "".join([f"{CHECKPOINT_VERSION}\n{len(lines)}\n", *(f"{line}\n" for line in lines)]).encode()


def parse_checkpoint(content: bytes, fields: int) -> list[list[str]] | None:
    """The entries, each split into `fields` words."""
    lines = content.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0] != str(CHECKPOINT_VERSION) or lines[1] != str(len(lines) - 2):
        return None
    entries = [line.split() for line in lines[2:]]
    return entries if all(len(entry) == fields for entry in entries) else None


def whole_number(text: str) -> int | None:
    """A non-negative decimal number, as Kafka writes it."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 19 else None


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """`recovery-point-offset-checkpoint`, `replication-offset-checkpoint` and `log-start-offset-checkpoint`."""
    return format_checkpoint(
        [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    )


def parse_offsets(content: bytes) -> dict[TopicPartition, int] | None:
    entries = parse_checkpoint(content, 3)
    if entries is None:
        return None
    offsets: dict[TopicPartition, int] = {}
    for topic, partition_text, offset_text in entries:
        partition, offset = whole_number(partition_text), whole_number(offset_text)
        if partition is None or offset is None:
            return None
        offsets[topic, partition] = offset
    return offsets


def uuid_to_text(uuid: bytes) -> str:
    """Kafka's text of a UUID: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_from_text(text: str) -> bytes | None:
    try:
        uuid = base64.urlsafe_b64decode(text + "==")
    except (ValueError, binascii.Error):
        return None
    return uuid if len(uuid) == 16 and uuid_to_text(uuid) == text else None


def format_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()


def parse_partition_metadata(content: bytes) -> bytes | None:
    """The topic id, 16 bytes."""
    properties = parse_lines(content, ":")
    if properties.get("version") != "0":
        return None
    return uuid_from_text(properties.get("topic_id", ""))


@dataclass(slots=True, frozen=True)
class DirectoryIdentity:
    """`meta.properties`: whose directory this is. The directory id is 16 bytes."""

    cluster_id: str
    node_id: int
    directory_id: bytes


def format_meta_properties(identity: DirectoryIdentity) -> bytes:
    return (
        "#\n"
        f"cluster.id={identity.cluster_id}\n"
        f"directory.id={uuid_to_text(identity.directory_id)}\n"
        f"node.id={identity.node_id}\n"
        "version=1\n"
    ).encode()


def parse_meta_properties(content: bytes) -> DirectoryIdentity | None:
    properties = parse_lines(content, "=")
    node_id = whole_number(properties.get("node.id", ""))
    directory_id = uuid_from_text(properties.get("directory.id", ""))
    cluster_id = properties.get("cluster.id")
    if properties.get("version") != "1" or node_id is None or directory_id is None or not cluster_id:
        return None
    return DirectoryIdentity(cluster_id, node_id, directory_id)


def format_clean_shutdown(broker_epoch: int) -> bytes:
    """KIP-966: the marker names the broker epoch that was shut down cleanly. That it is there is all that we read."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_lines(content: bytes, separator: str) -> dict[str, str]:
    """`name<separator>value`, line by line; comments and anything else are skipped."""
    properties: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith("#"):
            properties[name.strip()] = value.strip()
    return properties
