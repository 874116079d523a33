"""What a transaction becomes, and how that is written, is byte for byte what Kafka 4.4 writes at each change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.transactions.records import read_record, tombstone, transaction_record
from barnabas_logstore.core.coordinator.transactions.rules import (
    Fenced,
    Producer,
    add_partitions,
    end_transaction,
    init_producer_id,
)
from barnabas_logstore.core.coordinator.transactions.transaction import TopicPartition, Transaction, TransactionState
from tests.unit.logstore.transactions.golden import GOLDEN_FILE, golden_records, kafka_writes
from tests.unit.wire.golden import HAS_KAFKA, WITHOUT_KAFKA

WALL_MS = 1_700_000_000_000
GOLDEN = golden_records()


def known(outcome: object) -> Transaction:
    assert isinstance(outcome, Transaction), outcome
    return outcome


def producer_of(transaction: Transaction) -> Producer:
    return Producer(transaction.producer_id, transaction.producer_epoch)


def steps(version: int) -> Iterator[tuple[str, Transaction]]:
    """The same changes as `KafkaTransactions.java`, by requests."""
    client = 2 if version == 2 else 0
    one = Transaction("my-id", 7, 60_000, WALL_MS)
    one = known(init_producer_id(one, None, 60_000, version, 99, WALL_MS + 1))
    yield "begun", one
    one = known(add_partitions(one, producer_of(one), {TopicPartition("t", 1)}, client, WALL_MS + 2))
    yield "ongoing", one
    one = known(add_partitions(one, producer_of(one), {TopicPartition("u", 3)}, client, WALL_MS + 3))
    yield "more", one
    one = known(end_transaction(one, producer_of(one), client, 99, WALL_MS + 4, commit=True))
    yield "prepare commit", one
    one = one.completed(WALL_MS + 5)
    yield "committed", one
    one = known(add_partitions(one, producer_of(one), {TopicPartition("u", 0)}, client, WALL_MS + 6))
    yield "next", one
    fenced = init_producer_id(one, None, 60_000, version, 99, WALL_MS + 7)
    assert isinstance(fenced, Fenced)
    one = fenced.transaction
    yield "fenced", one
    one = one.completed(WALL_MS + 8)
    yield "aborted", one
    one = known(init_producer_id(one, None, 50_000, version, 99, WALL_MS + 9))
    yield "again", one
    last = Transaction("my-id", 7, 60_000, WALL_MS, producer_epoch=2**15 - 2)
    last = known(add_partitions(last, producer_of(last), {TopicPartition("t", 1)}, client, WALL_MS + 1))
    yield "last epoch", last
    last = known(end_transaction(last, producer_of(last), client, 8, WALL_MS + 2, commit=False))
    yield "last prepare", last
    last = last.completed(WALL_MS + 3)
    yield "last aborted", last
    if client == 2:
        last = known(end_transaction(last, producer_of(last), client, 99, WALL_MS + 4, commit=False))
        yield "empty abort", last
    else:
        last = known(init_producer_id(last, producer_of(last), 60_000, version, 8, WALL_MS + 4))
        yield "rotated", last


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_written_is_what_kafka_writes(version: int) -> None:
    written = {f"{version} {name}": transaction_record(each) for name, each in steps(version)}
    assert written.keys() == {name for name in GOLDEN if name.startswith(f"{version} ")}
    for name, record in written.items():
        assert (record.key, record.value) == GOLDEN[name], name


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_kafka_writes_is_read(version: int) -> None:
    """Version 0 lacks what is in tagged fields."""
    for name, each in steps(version):
        found = read_record(*GOLDEN[f"{version} {name}"])
        assert found is not None
        transactional_id, transaction = found
        assert transaction is not None
        assert transactional_id == "my-id"
        lacks = {} if version else {"previous_producer_id": -1, "next_producer_id": -1, "version": 0}
        if version < 2 or each.state in (TransactionState.EMPTY, TransactionState.ONGOING):
            # What InitProducerId has done to it is in no record.
            lacks["last_producer_epoch"] = -1
        expected = {key: getattr(each, key) for key in each._fields} | lacks
        assert {key: getattr(transaction, key) for key in each._fields} == expected, name


def test_an_id_that_is_forgotten() -> None:
    record = tombstone("my-id", WALL_MS)
    assert read_record(record.key, record.value) == ("my-id", None)


def test_what_a_later_kafka_writes_is_passed_over() -> None:
    key, value = GOLDEN["2 begun"]
    assert read_record(b"\x00\x09" + key[2:], value) is None
    assert read_record(key, b"\x00\x09" + value[2:]) is None


@pytest.mark.parametrize("cut", range(20))
def test_what_no_kafka_writes_is_malformed(cut: int) -> None:
    key, value = GOLDEN["2 ongoing"]
    with pytest.raises(MalformedFrame):
        read_record(key, value[:cut])
    with pytest.raises(MalformedFrame):
        read_record(key[: cut % len(key)] if cut % len(key) < len(key) else b"", value)


def test_an_unknown_state_is_malformed() -> None:
    key, value = GOLDEN["2 begun"]
    status_at = 2 + 8 + 2 + 4
    with pytest.raises(MalformedFrame):
        read_record(key, value[:status_at] + b"\x63" + value[status_at + 1 :])


@pytest.mark.java
@pytest.mark.skipif(not HAS_KAFKA, reason=WITHOUT_KAFKA)
def test_kafka_still_writes_the_golden_records() -> None:
    assert kafka_writes() == GOLDEN_FILE.read_text()
