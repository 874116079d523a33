"""Read what a log directory contains, without changing it: for `barnabas inspect`, when etcd is lost or restored."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from barnabas.cluster.inspection import LogDirFound, PartitionFound, Register
from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage import checkpoints
from barnabas_logstore.core.storage.checkpoints import DirectoryIdentity, TopicPartition
from barnabas_logstore.core.storage.directories.directory_format import check_format
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal
from barnabas_logstore.core.storage.directories.log_directory import STRAY_SUFFIX, parse_partition_directory
from barnabas_logstore.core.storage.directories.topic_register import TOPIC_REGISTER
from barnabas_logstore.core.storage.recovery.log_inspection import inspect_log


@dataclass(slots=True, frozen=True)
class InspectedDirectory:
    identity: DirectoryIdentity
    found: LogDirFound
    producer_id_max: int


def inspect_directory(disk: Disk, path: str) -> InspectedDirectory | DirectoryRefusal:
    """The directory's logstore must not be running. Raises DiskError."""
    meta_path = f"{path}/{checkpoints.META_PROPERTIES}"
    if not disk.exists(meta_path):
        return DirectoryRefusal(f"{path} is not a log directory: it has no {checkpoints.META_PROPERTIES}")
    identity = checkpoints.parse_meta_properties(disk.read_file(meta_path))
    if identity is None:
        return DirectoryRefusal(
            f"{meta_path} is not a meta.properties of version 1 with cluster.id, node.id, directory.id"
        )
    refusal = check_format(disk, path)
    if refusal is not None:
        return refusal
    is_clean = disk.exists(f"{path}/{checkpoints.CLEAN_SHUTDOWN_MARKER}")
    recovery_points = _read_offsets(disk, f"{path}/{checkpoints.RECOVERY_POINT_CHECKPOINT}")
    log_starts = _read_offsets(disk, f"{path}/{checkpoints.LOG_START_CHECKPOINT}")
    cleaner_offsets = _read_offsets(disk, f"{path}/{checkpoints.CLEANER_OFFSET_CHECKPOINT}")
    high_watermarks = _read_offsets(disk, f"{path}/{checkpoints.HIGH_WATERMARK_CHECKPOINT}")
    partitions, strays, producer_id_max = [], [], -1
    for entry in disk.list(path):
        topic_partition = parse_partition_directory(entry.name)
        if not entry.is_directory or (topic_partition is None and not entry.name.endswith(STRAY_SUFFIX)):
            continue
        if topic_partition is None:
            strays.append(entry.name.encode(errors="backslashreplace").decode())
            continue
        directory = f"{path}/{entry.name}"
        log = inspect_log(
            disk,
            directory,
            recovery_point=recovery_points.get(topic_partition, 0),
            shut_down_cleanly=is_clean,
            log_start_offset=log_starts.get(topic_partition, 0),
            first_dirty_offset=cleaner_offsets.get(topic_partition, 0),
        )
        producer_id_max = max(producer_id_max, log.producer_id_max)
        partitions.append(
            PartitionFound(
                topic=topic_partition[0],
                topic_id=_read_topic_id(disk, directory),
                partition=topic_partition[1],
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                latest_epoch=log.latest_epoch,
                high_watermark=high_watermarks.get(topic_partition, 0),
            )
        )
    register = _read_register(disk, f"{path}/{TOPIC_REGISTER}")
    directory_id = checkpoints.uuid_to_text(identity.directory_id)
    found = LogDirFound(path, directory_id, is_clean, partitions, strays, register)
    return InspectedDirectory(identity, found, producer_id_max)


def _read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    offsets = checkpoints.parse_offsets(disk.read_file(path)) if disk.exists(path) else None
    return {} if offsets is None else offsets


def _read_topic_id(disk: Disk, directory: str) -> str:
    """Return an empty id if the owner of these records is unknown."""
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    topic_id = checkpoints.parse_partition_metadata(disk.read_file(path)) if disk.exists(path) else None
    return "" if topic_id is None else topic_id.hex()


def _read_register(disk: Disk, path: str) -> Register | None:
    if not disk.exists(path):
        return None
    try:
        return msgspec.json.decode(disk.read_file(path), type=Register)
    except msgspec.DecodeError:
        return None  # as good as none: in an older version's format, or corrupt
