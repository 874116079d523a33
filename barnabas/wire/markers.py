"""Markers: the control batches that end a producer's transaction in a partition, in Kafka's format (KIP-98).

A marker is a batch of one record. Its key has a version and a type (0: ABORT, 1: COMMIT), its value a version and the
epoch of the transaction coordinator that decided.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from barnabas.wire.primitives import Buffer, MalformedFrame
from barnabas.wire.record_batch import BatchHeader, Record, build_batch, decode_records

ABORT: Final = 0
COMMIT: Final = 1
MARKER_BYTES_MAX: Final = 4096
"""A longer control batch is no marker: Kafka's have less than 100 bytes."""

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0


class Marker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


class TransactionEnd(NamedTuple):
    """The end of a producer's transaction in a partition, as its coordinator has decided."""

    producer_id: int
    producer_epoch: int
    marker: Marker
    transaction_version: int


class ProducerInTransaction(NamedTuple):
    """The producer for whose transaction a coordinator writes.

    `supports_epoch_bump`: the transaction is of version 2. `verification_guard` is 0 before the transaction's own
    coordinator has confirmed the partition.
    """

    producer_id: int
    producer_epoch: int
    supports_epoch_bump: bool
    verification_guard: int


def build_marker(producer_id: int, producer_epoch: int, marker: Marker, timestamp_ms: int) -> bytes:
    """Return the control batch of one marker, for base offset 0."""
    key = _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(key, value, timestamp_ms)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def control_type_of(key: bytes | None) -> int:
    """Return `ABORT`, `COMMIT`, or -1 for anything else."""
    if key is None or len(key) < _KEY.size:
        return -1
    control_type: int = _KEY.unpack_from(key)[1]
    return control_type


def marker_of(header: BatchHeader, batch: Buffer) -> Marker | None:
    """Return the marker in a control batch. None: it marks no end of a transaction, or compaction has emptied it."""
    if header.records_count == 0 or header.size_bytes > MARKER_BYTES_MAX:
        return None
    try:
        record = decode_records(batch)[0]
    except MalformedFrame:
        return None
    control_type = control_type_of(record.key)
    if control_type not in (ABORT, COMMIT) or record.value is None or len(record.value) < _VALUE.size:
        return None
    return Marker(control_type == COMMIT, _VALUE.unpack_from(record.value)[1])
