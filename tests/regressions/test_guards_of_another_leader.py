"""A verification guard was used for another state of a log than the one that it was handed out for (KIP-890).

Guards counted from 1 in every log, and what a follower was given voided none. So a leader that was deposed with a
guard outstanding compared a later transaction, once it led again, with the batch that had asked for the guard: the
first batch of a correct transaction was OUT_OF_ORDER_SEQUENCE_NUMBER for as long as its producer lived. And
TxnOffsetCommit took the guard of one coordinator to the next one, where the same number could be another
transaction's: a late commit of offsets could open a transaction that no coordinator knew of.
"""

from __future__ import annotations

import pytest

from barnabas.channel.messages import CoordinateResponse, GroupAnswer
from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker, build_marker
from barnabas.wire.record_batch import Record, build_batch, patch_offsets
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.gateway.groups import OFFSETS_TOPIC_ID
from tests.unit.gateway.test_transactional_offsets import (
    GUARD,
    OF_GROUPS,
    OF_TRANSACTIONS,
    commit,
    confirm,
    send_back,
    world_of,
)
from tests.unit.gateway.world import topic
from tests.unit.logstore.storage.support import WALL_MS, new_log
from tests.unit.logstore.storage.test_full_disk import no_room, run_full, take_back
from tests.unit.logstore.storage.test_truncation import cut

PRODUCER = 9


def transactional(sequence: int) -> bytes:
    return build_batch(
        [Record(b"k", b"v", WALL_MS)],
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )


def placed(batch: bytes, offset: int, leader_epoch: int) -> memoryview:
    """Return a batch as another leader has it in its log."""
    bytes_of = bytearray(batch)
    patch_offsets(bytes_of, 0, offset, leader_epoch)
    return memoryview(bytes(bytes_of))


def guard_of(log: PartitionLog, sequence: int) -> int:
    return log.begin_verification(PRODUCER, 0, sequence, WALL_MS, supports_epoch_bump=False)


def append(log: PartitionLog, sequence: int, leader_epoch: int, guard: int) -> AppendOutcome | ErrorCode:
    return log.append(memoryview(transactional(sequence)), leader_epoch, WALL_MS, None, guard)


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


@pytest.fixture
def log(disk: DiskModel) -> PartitionLog:
    log = new_log(disk)
    log.begin_leader_epoch(1)
    return log


def follow(log: PartitionLog) -> None:
    """Another leader, of epoch 2, has the whole transaction that this one was asked for."""
    assert log.append_replicated(placed(transactional(0), 0, 2), 2, WALL_MS) is None
    marker = build_marker(PRODUCER, 0, Marker(True, 0), WALL_MS)
    assert log.append_replicated(placed(marker, 1, 2), 2, WALL_MS) is None


def test_a_leader_that_was_deposed_appends_the_next_transaction(log: PartitionLog) -> None:
    guard_of(log, 0)
    follow(log)
    log.begin_leader_epoch(3)
    assert isinstance(append(log, 1, 3, guard_of(log, 1)), AppendOutcome)


def test_a_confirmation_of_a_transaction_that_ended_under_another_leader_is_worth_nothing(log: PartitionLog) -> None:
    early = guard_of(log, 0)
    follow(log)
    assert append(log, 1, 2, early) is ErrorCode.INVALID_TXN_STATE
    log.begin_leader_epoch(3)
    assert append(log, 1, 3, early) is ErrorCode.INVALID_TXN_STATE
    later = guard_of(log, 1)
    assert later != early
    assert append(log, 1, 3, early) is ErrorCode.INVALID_TXN_STATE


def test_a_guard_does_not_outlive_its_epoch(log: PartitionLog) -> None:
    early = guard_of(log, 0)
    log.begin_leader_epoch(2)
    assert append(log, 0, 2, early) is ErrorCode.INVALID_TXN_STATE
    assert isinstance(append(log, 0, 2, guard_of(log, 0)), AppendOutcome)


def test_a_guard_does_not_outlive_a_truncation(disk: DiskModel, log: PartitionLog) -> None:
    early = guard_of(log, 0)
    cut(disk, log, 0)
    assert append(log, 0, 1, early) is ErrorCode.INVALID_TXN_STATE


def test_a_guard_does_not_outlive_what_a_full_disk_takes_back(disk: DiskModel, log: PartitionLog) -> None:
    early = guard_of(log, 0)
    outside = log.append(memoryview(build_batch([Record(b"k", b"v", WALL_MS)])), 1, WALL_MS, None)
    assert isinstance(outside, AppendOutcome)
    disk.faults.append(no_room("write_at", ".log"))
    run_full(disk, log)
    take_back(disk, log)
    assert append(log, 0, 1, early) is ErrorCode.INVALID_TXN_STATE


def test_no_two_logs_hand_out_the_same_guard(log: PartitionLog) -> None:
    other = new_log(DiskModel())
    other.begin_leader_epoch(2)
    guards = [guard_of(log, 0), guard_of(other, 0)]
    assert guards[0] != guards[1]
    assert append(other, 0, 2, guards[0]) is ErrorCode.INVALID_TXN_STATE


def test_the_guard_of_one_coordinator_is_not_taken_to_the_next_one() -> None:
    world = world_of()
    client = world.client()
    commit(client, 0)
    send_back(world)
    moved = topic(OFFSETS_TOPIC, OFFSETS_TOPIC_ID, (OF_TRANSACTIONS,), 6)
    world.update(topic("t"), moved, topic(TRANSACTION_STATE_TOPIC, b"states of trans.", (OF_TRANSACTIONS,), 5))
    confirm(world)
    assert world.logstores[OF_GROUPS].group_calls == []
    call = world.logstores[OF_TRANSACTIONS].group_calls.pop()
    assert call.verification_guard == 0
    own = GroupAnswer(call.request_id, ErrorCode.INVALID_TXN_STATE, verification_guard=GUARD)
    world.logstores[OF_TRANSACTIONS].coordinate(CoordinateResponse(answers=[own]))
    confirm(world)
    assert [each.verification_guard for each in world.logstores[OF_TRANSACTIONS].group_calls] == [GUARD]
