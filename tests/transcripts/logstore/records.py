"""What the logs on a disk have, as `kafka-dump-log.sh` prints it: records, markers, and those of coordinators by field.

The formats are declared here once more, after Kafka's OffsetCommitKey.json, GroupMetadataKey.json,
TransactionLogKey.json and their values: what the coordinators write is checked against another reading of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Any

from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from barnabas.wire.markers import marker_of
from barnabas.wire.record_batch import HEADER_BYTES, BatchHeader, Record, decode_records, iterate_headers
from barnabas.wire.schema import wire
from tests.sim.disk_model import DiskModel
from tests.transcripts.logstore.node import DIRECTORY

OFFSETS_TOPIC = "__consumer_offsets"
STATE_TOPIC = "__transaction_state"
_VERSION = Struct(">h")


@dataclass(slots=True)
class OffsetCommitKey:
    group: str = wire("string")
    topic: str = wire("string")
    partition: int = wire("int32")


@dataclass(slots=True)
class OffsetCommitValue:
    offset: int = wire("int64")
    leader_epoch: int = wire("int32", "3+", default=-1)
    metadata: str = wire("string")
    commit_timestamp: int = wire("int64")
    expire_timestamp: int = wire("int64", "1", default=-1)


@dataclass(slots=True)
class GroupMetadataKey:
    group: str = wire("string")


@dataclass(slots=True)
class MemberMetadata:
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    rebalance_timeout: int = wire("int32", "1+", default=-1)
    session_timeout: int = wire("int32")
    subscription: bytes = wire("bytes")
    assignment: bytes = wire("bytes")


@dataclass(slots=True)
class GroupMetadataValue:
    protocol_type: str = wire("string")
    generation: int = wire("int32")
    protocol: str | None = wire("string", nullable="0+")
    leader: str | None = wire("string", nullable="0+")
    current_state_timestamp: int = wire("int64", "2+", default=-1)
    members: list[MemberMetadata] = wire([MemberMetadata])


@dataclass(slots=True)
class TransactionLogKey:
    transactional_id: str = wire("string")


@dataclass(slots=True)
class PartitionsSchema:
    topic: str = wire("string")
    partition_ids: list[int] = wire(["int32"])


@dataclass(slots=True)
class TransactionLogValue:
    producer_id: int = wire("int64")
    previous_producer_id: int = wire("int64", "1+", tag=0, default=-1)
    next_producer_id: int = wire("int64", "1+", tag=1, default=-1)
    producer_epoch: int = wire("int16")
    transaction_timeout_ms: int = wire("int32")
    transaction_status: int = wire("int8")
    transaction_partitions: list[PartitionsSchema] | None = wire([PartitionsSchema], nullable="0+")
    transaction_last_update_timestamp_ms: int = wire("int64")
    transaction_start_timestamp_ms: int = wire("int64")
    client_transaction_version: int = wire("int16", "1+", tag=2)


class TransactionStatus(Enum):
    Empty = 0
    Ongoing = 1
    PrepareCommit = 2
    PrepareAbort = 3
    CompleteCommit = 4
    CompleteAbort = 5
    Dead = 6
    PrepareEpochFence = 7


_decoders: dict[tuple[type[Any], int], Callable[[memoryview, int], Any]] = {}


def _decode(message: type[Any], data: bytes, flexible_from: int = 1 << 15) -> Any:
    version = _version_of(data)
    decode = _decoders.get((message, version))
    if decode is None:
        decode = _decoders[message, version] = compile_decoder(message, version, version >= flexible_from)
    return decode(memoryview(data), _VERSION.size)


def _version_of(data: bytes) -> int:
    version: int = _VERSION.unpack_from(data)[0]
    return version


@dataclass(slots=True, frozen=True)
class StoredBatch:
    """One batch of a log: `content` decides whether another one is the same, `lines` say what it has."""

    base_offset: int
    next_offset: int
    content: bytes
    lines: tuple[str, ...]


def stored_log(disk: DiskModel, topic: str, partition: int) -> bytes:
    """Return the batches of all segments of a partition's log; none if the disk has no such log."""
    folder = f"{DIRECTORY}/{topic}-{partition}"
    if not disk.exists(folder):
        return b""
    names = sorted(each.name for each in disk.list(folder) if each.name.endswith(".log"))
    return b"".join(disk.peek(f"{folder}/{name}") for name in names)


def batches_of(topic: str, data: bytes) -> list[StoredBatch]:
    """Decode a log of this topic, in order."""
    found: list[StoredBatch] = []
    for position, header in iterate_headers(data):
        batch = data[position : position + header.size_bytes]
        lines = tuple(_lines_of(topic, header, batch))
        found.append(StoredBatch(header.base_offset, header.next_offset, batch, lines))
    return found


def _lines_of(topic: str, header: BatchHeader, batch: bytes) -> list[str]:
    marker = marker_of(header, batch) if header.is_control else None
    if marker is not None:
        end = "COMMIT" if marker.is_commit else "ABORT"
        coordinator = f"coordinator-epoch={marker.coordinator_epoch}"
        return [f"@{header.base_offset} {end} marker {_producer_of(header)} {coordinator}"]
    assert len(batch) > HEADER_BYTES
    records = decode_records(batch)
    suffix = ""
    if header.has_producer:
        suffix = f" {_producer_of(header)}"
        if topic != OFFSETS_TOPIC:
            suffix += f" sequence={header.base_sequence}"
    if header.is_transactional:
        suffix += " transactional"
    match topic:
        case "__consumer_offsets":
            return [f"@{each.offset} {group_record(each)}{suffix}" for each in records]
        case "__transaction_state":
            return [f"@{each.offset} {transaction_record(each)}" for each in records]
    values = ",".join((each.value or b"").decode() for each in records)
    last = f"..{header.last_offset}" if len(records) > 1 else ""
    return [f"@{header.base_offset}{last} [{values}] leader-epoch={header.partition_leader_epoch}{suffix}"]


def _producer_of(header: BatchHeader) -> str:
    return f"producer-id={header.producer_id} producer-epoch={header.producer_epoch}"


def group_record(record: Record) -> str:
    """Describe a record of __consumer_offsets."""
    assert record.key is not None
    if _version_of(record.key) < 2:
        key = _decode(OffsetCommitKey, record.key)
        name = f"OffsetCommit group={key.group} partition={key.topic}-{key.partition}"
        if record.value is None:
            return f"{name}: tombstone"
        value = _decode(OffsetCommitValue, record.value, 4)
        metadata = f" metadata={value.metadata}" if value.metadata else ""
        return f"{name}: offset={value.offset}{metadata}"
    assert _version_of(record.key) == 2
    name = f"GroupMetadata group={_decode(GroupMetadataKey, record.key).group}"
    if record.value is None:
        return f"{name}: tombstone"
    group = _decode(GroupMetadataValue, record.value, 4)
    members = ",".join(f"{each.member_id}:{each.assignment.decode() or '-'}" for each in group.members)
    leader = f" protocol={group.protocol} leader={group.leader}" if group.leader is not None else ""
    return f"{name}: generation={group.generation}{leader} members=[{members}]"


def transaction_record(record: Record) -> str:
    """Describe a record of __transaction_state."""
    assert record.key is not None
    name = f"TransactionLog transactional-id={_decode(TransactionLogKey, record.key).transactional_id}"
    if record.value is None:
        return f"{name}: tombstone"
    value = _decode(TransactionLogValue, record.value, 1)
    topics = value.transaction_partitions or []
    partitions = ",".join(f"{each.topic}-{number}" for each in topics for number in each.partition_ids)
    shown = [
        TransactionStatus(value.transaction_status).name,
        f"producer-id={value.producer_id}",
        f"producer-epoch={value.producer_epoch}",
    ]
    if partitions:
        shown.append(f"partitions=[{partitions}]")
    if value.next_producer_id != -1:
        shown.append(f"next-producer-id={value.next_producer_id}")
    return f"{name}: {' '.join(shown)}"


def encode_transaction(transactional_id: str, value: TransactionLogValue) -> Record:
    """Return the record that a coordinator writes for a transactional id, version 1."""
    encode_key = compile_encoder(TransactionLogKey, 0, False)
    encode_value = compile_encoder(TransactionLogValue, 1, True)
    key = b"".join((_VERSION.pack(0), *encode_key(TransactionLogKey(transactional_id))))
    return Record(key, b"".join((_VERSION.pack(1), *encode_value(value))))
