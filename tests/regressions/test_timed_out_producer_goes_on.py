"""A producer whose transaction had timed out was fenced for good, though no other producer had its place.

The coordinator raised the epoch twice, once to fence the producer and once for the end of version 2, and forgot the
epoch that the client had. So its abort was no repetition any more, and PRODUCER_FENCED; and InitProducerId with its id
and epoch (KIP-360), by which librdkafka goes on, was, too. Kafka raises the epoch once: the client's abort is answered
with the next epoch, and it goes on.
"""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.transactions.transaction import TransactionState
from tests.unit.logstore.transactions.support import ID, TIMEOUT_MS, World, update_of


def timed_out(version: int = 2, *, level: int = 2) -> tuple[World, int, int]:
    """Return the producer of a transaction that its coordinator has aborted, as the client knows it."""
    world = World()
    world.image.apply(update_of(1, leader=1, revision=2, level=level))
    found = world.init()
    producer = found.producer_id, found.producer_epoch
    begun = world.add_by_broker(*producer, 0) if version == 2 else world.add(*producer, 0)
    assert begun == ErrorCode.NONE
    world.advance(TIMEOUT_MS + 20_000)
    assert world.state() is TransactionState.PREPARE_ABORT
    assert [each.producer_epoch for _, each in world.markers.sent] == [producer[1] + 1], "the marker's"
    world.markers.write()
    world.turn()
    assert world.state() is TransactionState.COMPLETE_ABORT
    return world, *producer


@pytest.mark.parametrize("moves", [False, True])
def test_its_abort_is_a_repetition_and_the_next_transaction_begins(moves: bool) -> None:
    world, producer_id, epoch = timed_out()
    if moves:
        world.fail_over()
    for _ in range(2):
        ended = world.end(producer_id, epoch, commit=False, version=5)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (ErrorCode.NONE, producer_id, epoch + 1)
    assert world.add_by_broker(producer_id, epoch + 1, 1) == ErrorCode.NONE
    ended = world.end(producer_id, epoch + 1, commit=True, version=5)
    assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, epoch + 2)


def test_its_commit_is_refused() -> None:
    world, producer_id, epoch = timed_out()
    assert world.end(producer_id, epoch, commit=True, version=5).error_code == ErrorCode.PRODUCER_FENCED
    assert world.add_by_broker(producer_id, epoch, 1) == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("version", [0, 2])
def test_it_asks_for_its_epoch_and_goes_on(version: int, moves: bool) -> None:
    world, producer_id, epoch = timed_out(version)
    if moves:
        world.fail_over()
    assert world.end(producer_id, epoch, commit=False, version=4).error_code == ErrorCode.PRODUCER_FENCED
    for _ in range(2):
        found = world.init(producer_id=producer_id, producer_epoch=epoch)
        assert (found.error_code, found.producer_id, found.producer_epoch) == (0, producer_id, epoch + 1)
    assert world.add(producer_id, epoch + 1, 1) == ErrorCode.NONE


@pytest.mark.parametrize("level", [0, 1])
def test_without_version_2_in_the_cluster_it_is_fenced_as_in_kafka(level: int) -> None:
    world, producer_id, epoch = timed_out(0, level=level)
    assert world.init(producer_id=producer_id, producer_epoch=epoch).error_code == ErrorCode.PRODUCER_FENCED
    assert world.init().producer_epoch == epoch + 2


def test_another_producer_of_its_id_fences_it() -> None:
    world, producer_id, epoch = timed_out()
    assert world.init().producer_epoch == epoch + 2
    assert world.end(producer_id, epoch, commit=False, version=5).error_code == ErrorCode.PRODUCER_FENCED
    found = world.init(producer_id=producer_id, producer_epoch=epoch)
    assert found.error_code == ErrorCode.PRODUCER_FENCED
    assert ID in world.coordinator.shards[0].shard.transactions
