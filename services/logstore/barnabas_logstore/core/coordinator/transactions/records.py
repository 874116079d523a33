"""The records of `__transaction_state`, in Kafka's formats.

A key is a version, 0, and the transactional id. A value begins with its own version: 1 is written, with tagged fields,
as Kafka does from transaction version 1 on; 0 is read. A null value is a tombstone.

Source: TransactionLogKey/Value.json of Kafka's transaction coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from barnabas.wire.primitives import Buffer, MalformedFrame
from barnabas.wire.record_batch import Record
from barnabas.wire.schema import wire
from barnabas_logstore.core.coordinator.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    TopicPartition,
    Transaction,
    TransactionState,
)

_VERSION: Final = Struct(">h")
_KEY: Final = 0
_VALUE_WRITTEN: Final = 1
_STATES: Final = frozenset(map(int, TransactionState))
_ENDED: Final = frozenset(
    (
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
)


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


_encode_key: Final = compile_encoder(TransactionLogKey, 0, False)
_decode_key: Final = compile_decoder(TransactionLogKey, 0, False)
_encode_value: Final = compile_encoder(TransactionLogValue, _VALUE_WRITTEN, True)
_decode_value: Final = {version: compile_decoder(TransactionLogValue, version, version > 0) for version in (0, 1)}


def transaction_record(transaction: Transaction) -> Record:
    """Return the record of a transaction, whose timestamp is that of its last change."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.version,
    )
    encoded = b"".join((_VERSION.pack(_VALUE_WRITTEN), *_encode_value(value)))
    return Record(_key_of(transaction.transactional_id), encoded, transaction.last_update_ms)


def tombstone(transactional_id: str, wall_ms: int) -> Record:
    """Return the record by which an id is forgotten."""
    return Record(_key_of(transactional_id), None, wall_ms)


def read_record(key: Buffer | None, value: Buffer | None) -> tuple[str, Transaction | None] | None:
    """Parse a record: its transactional id, and the transaction or None for a tombstone. Return None if the record is
    of a kind or version that a later Kafka has.

    Raises MalformedFrame for what Kafka never writes.
    """
    if key is None or len(key) < _VERSION.size or (value is not None and len(value) < _VERSION.size):
        raise MalformedFrame("a record of __transaction_state is shorter than its versions")
    if _VERSION.unpack_from(key)[0] != _KEY:
        return None
    transactional_id = _decode_key(memoryview(key), _VERSION.size).transactional_id
    if value is None:
        return transactional_id, None
    decode = _decode_value.get(_VERSION.unpack_from(value)[0])
    if decode is None:
        return None
    found = decode(memoryview(value), _VERSION.size)
    if found.transaction_status not in _STATES:
        raise MalformedFrame(f"a transaction of state {found.transaction_status}")
    partitions = [
        TopicPartition(each.topic, partition)
        for each in found.transaction_partitions or ()
        for partition in each.partition_ids
    ]
    return transactional_id, Transaction(
        transactional_id,
        found.producer_id,
        found.transaction_timeout_ms,
        found.transaction_last_update_timestamp_ms,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        producer_epoch=found.producer_epoch,
        last_producer_epoch=_last_epoch_of(found),
        state=TransactionState(found.transaction_status),
        partitions=frozenset(partitions),
        start_ms=found.transaction_start_timestamp_ms,
        version=found.client_transaction_version,
    )


def _last_epoch_of(found: TransactionLogValue) -> int:
    """Return the epoch that a client may still repeat a request with, as far as the record says it.

    No record has it. An end of version 2 has raised it by one, or has used up the last one; what InitProducerId has
    done to it is forgotten with the coordinator, as in Kafka, which forgets all of it.
    """
    if found.client_transaction_version < EPOCH_BUMP_VERSION or found.transaction_status not in _ENDED:
        return NO_PRODUCER_EPOCH
    return EPOCH_MAX - 1 if found.producer_epoch == 0 else found.producer_epoch - 1


def _key_of(transactional_id: str) -> bytes:
    return b"".join((_VERSION.pack(_KEY), *_encode_key(TransactionLogKey(transactional_id))))


def _by_topic(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    topics: dict[str, PartitionsSchema] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, PartitionsSchema(topic, [])).partition_ids.append(partition)
    return list(topics.values())
