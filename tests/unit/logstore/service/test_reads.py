"""Reads and queries: what may be seen, how the budget is spent, who is refused."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import Read, ReadPartition, ReadRequest, ReadResponse
from barnabas.cluster.messages import LeaderAndIsr
from barnabas.ports.disk import Disk, DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effect_execution import execute, failed_by_fault
from barnabas_logstore.core.storage.effects import FindRecordEffect, ReadBatchesEffect, StorageEffect
from barnabas_logstore.core.streams.outbox import PARTITIONS_PER_RESPONSE, READ_PARTITIONS_PER_TURN
from tests.sim.disk_model import Fault
from tests.unit.logstore.service import support
from tests.unit.logstore.service.support import (
    EXCHANGE,
    READ,
    TOPIC_ID,
    WALL_MS,
    Host,
    batch,
    fetch,
    led_by_other,
    offsets,
    topic,
)

LATEST, EARLIEST, MAX_TIMESTAMP, LATEST_TIERED = -1, -2, -3, -5


@pytest.fixture
def host() -> Host:
    """Three partitions, the first two with two batches of about 1 KB each."""
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead(topic(partitions=3))
    for partition in (0, 1):
        for _ in range(2):
            host.append(batch(value_bytes=1000), partition=partition)
    return host


BATCH_BYTES = len(batch(value_bytes=1000))


def test_the_budget_is_spent_in_the_order_asked(host: Host) -> None:
    result = host.read(fetch(partition=1), fetch(partition=2), fetch(partition=0), bytes_max=3 * BATCH_BYTES)
    assert [partition.index for partition in result.partitions] == [0, 1, 2]
    assert [offsets(partition.records) for partition in result.partitions] == [[0, 1], [], [0]]


def test_the_first_partition_with_anything_gives_a_batch_larger_than_the_budget(host: Host) -> None:
    result = host.read(fetch(partition=2), fetch(partition=1), fetch(partition=0), bytes_max=10)
    assert [len(partition.records) for partition in result.partitions] == [0, BATCH_BYTES, 0]


def test_a_partitions_own_maximum_holds_within_the_budget(host: Host) -> None:
    result = host.read(fetch(partition=0, bytes_max=BATCH_BYTES), fetch(partition=1))
    assert [offsets(partition.records) for partition in result.partitions] == [[0], [0, 1]]


def test_a_result_tells_where_the_partition_is(host: Host) -> None:
    (result,) = host.read(fetch(1)).partitions
    assert (result.error_code, result.high_watermark, result.last_stable_offset) == (ErrorCode.NONE, 2, 2)
    assert (result.log_start_offset, result.leader_epoch, result.leader_id) == (0, 0, 1)
    assert (result.fetch_position, len(result.records)) == (BATCH_BYTES, BATCH_BYTES)
    (result,) = host.read(fetch(2)).partitions
    assert (result.fetch_position, len(result.records)) == (2 * BATCH_BYTES, 0)


@pytest.mark.parametrize("offset", [-1, 3])
def test_an_offset_outside_of_the_log_is_out_of_range(host: Host, offset: int) -> None:
    (result,) = host.read(fetch(offset)).partitions
    assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (result.log_start_offset, result.high_watermark) == (0, 2)


@pytest.mark.parametrize(
    ("current_leader_epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_readers_leader_epoch_is_held_against_ours(host: Host, current_leader_epoch: int, error: ErrorCode) -> None:
    host.lead(topic(5, 0, partitions=3))
    (result,) = host.read(fetch(current_leader_epoch=current_leader_epoch)).partitions
    assert result.error_code == error
    if error == ErrorCode.FENCED_LEADER_EPOCH:
        assert (result.leader_id, result.leader_epoch) == (1, 5)
    answer = host.query_offset(LATEST, current_leader_epoch=current_leader_epoch)
    assert answer.error_code == error


def test_a_follower_sends_readers_to_the_leader(host: Host) -> None:
    host.lead(topic(1, 0, leader=2, replicas=[1, 2], in_sync_replicas=[2]))
    (result,) = host.read(fetch()).partitions
    assert (result.error_code, result.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


def test_a_partition_that_is_not_here_is_refused_beside_others_that_are(host: Host) -> None:
    result = host.read(fetch(partition=8), fetch(partition=0))
    assert [partition.error_code for partition in result.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert offsets(result.partitions[1].records) == [0, 1]


def test_the_same_partition_twice_is_read_twice(host: Host) -> None:
    result = host.read(fetch(0), fetch(1))
    assert [offsets(partition.records) for partition in result.partitions] == [[0, 1], [1]]


def test_a_read_of_nothing_is_answered(host: Host) -> None:
    host.core.on_read(READ, ReadRequest(reads=[Read(900, 1000, 0, [])]))
    host.settle()
    assert host.read_results[900].partitions == []


def test_a_large_read_comes_in_pieces_of_a_megabyte(host: Host) -> None:
    for _ in range(4):
        host.append(batch(value_bytes=700_000), partition=2)
    host.core.on_read(READ, ReadRequest(reads=[Read(900, 10 << 20, 0, [fetch(partition=2, bytes_max=10 << 20)])]))
    host.core.step(0, WALL_MS)
    (effect,) = host.take_effects()
    assert isinstance(effect, ReadBatchesEffect)
    host.core.on_io_done(effect, execute(host.disk, effect))
    messages = [response.pieces for _, response in host.core.take_outputs().reads]
    sizes = [sum(len(each.records) for piece in pieces for each in piece.partitions) for pieces in messages]
    assert len(sizes) == 3
    assert max(sizes) <= 1 << 20
    assert sum(sizes) == effect.part.end_position
    assert [piece.last for pieces in messages for piece in pieces] == [False, False, True]


def test_many_partitions_are_planned_over_several_steps() -> None:
    host = Host(step_requests_max=4)
    host.greet(EXCHANGE, READ)
    host.lead(topic(partitions=10))
    for partition in range(10):
        host.append(partition=partition)
    request = Read(900, 1 << 20, 0, [fetch(partition=partition) for partition in range(10)])
    host.core.on_read(READ, ReadRequest(reads=[request]))
    assert len(host.settle()) == 3
    assert [offsets(each.records) for each in host.read_results[900].partitions] == [[0]] * 10


def test_a_cancelled_read_is_dropped_wherever_it_is(host: Host) -> None:
    host.holds_effects = True
    host.core.on_read(READ, ReadRequest(reads=[Read(900, 1000, 0, [fetch()])]))
    host.turn()
    host.core.on_read(READ, ReadRequest(reads=[Read(901, 1000, 0, [fetch()])]))
    host.core.on_read(READ, ReadRequest(cancels=[900, 901, 902]))
    host.holds_effects = False
    said = host.settle()
    assert [response.pieces for out in said for _, response in out.reads] == [[]]
    assert host.read_results == {}


def test_a_closed_stream_takes_its_reads_along(host: Host) -> None:
    host.holds_effects = True
    host.core.on_read(READ, ReadRequest(reads=[Read(900, 1000, 0, [fetch()])]))
    host.turn()
    host.core.on_read(READ, ReadRequest(reads=[Read(901, 1000, 0, [fetch()])]))
    host.core.on_stream_closed(READ)
    host.holds_effects = False
    assert [out.reads for out in host.settle()] == [[]]


def test_a_read_under_way_fails_at_once_when_the_leader_epoch_ends(host: Host) -> None:
    host.holds_effects = True
    host.core.on_read(READ, ReadRequest(reads=[Read(900, 1000, 0, [fetch()])]))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [led_by_other(1)])))
    host.turn()
    (result,) = host.read_results.pop(900).partitions
    assert (result.error_code, result.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
    host.holds_effects = False
    host.settle()
    assert host.read_results == {}


def test_a_read_error_takes_the_directory_offline(host: Host) -> None:
    host.disk.faults.append(Fault("read_at", "orders-1"))
    result = host.read(fetch(partition=0), fetch(partition=1))
    assert ErrorCode.KAFKA_STORAGE_ERROR in [partition.error_code for partition in result.partitions]
    assert host.core.all_directories_offline


def test_what_one_read_may_ask_for_is_bounded(host: Host) -> None:
    for _ in range(70):
        host.append(batch(value_bytes=1_000_000), partition=2)
    host.holds_effects = True
    host.core.on_read(READ, ReadRequest(reads=[Read(900, 2**32 - 1, 0, [fetch(partition=2, bytes_max=2**32 - 1)])]))
    host.turn()
    (effect,) = host.held
    assert isinstance(effect, ReadBatchesEffect)
    assert effect.max_bytes <= 55 * 1024 * 1024


@pytest.mark.parametrize(
    ("timestamp", "offset", "timestamp_found"),
    [
        (LATEST, 3, -1),
        (EARLIEST, 0, -1),
        (MAX_TIMESTAMP, 2, WALL_MS + 20),
        (WALL_MS, 0, WALL_MS),
        (WALL_MS + 5, 1, WALL_MS + 10),
        (WALL_MS + 20, 2, WALL_MS + 20),
        (WALL_MS + 21, -1, -1),
    ],
)
def test_offsets_by_timestamp(host: Host, timestamp: int, offset: int, timestamp_found: int) -> None:
    for number in range(3):
        host.append(batch(timestamp_ms=WALL_MS + 10 * number), partition=2)
    answer = host.query_offset(timestamp, partition=2)
    assert (answer.error_code, answer.offset, answer.timestamp) == (ErrorCode.NONE, offset, timestamp_found)


def test_the_latest_offset_is_not_known_while_the_epochs_start_is_not_committed(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request(partition=2))
    host.turn()
    host.holds_effects = False
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(1, 0, partitions=3)])))
    held, host.held = host.held, []
    host.turn()
    for timestamp in (LATEST, WALL_MS, MAX_TIMESTAMP):
        assert host.query_offset(timestamp, partition=2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    for timestamp, offset in ((EARLIEST, 0), (LATEST_TIERED, -1)):
        answer = host.query_offset(timestamp, partition=2)
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, offset)
    host.held = held
    host.settle()
    answer = host.query_offset(LATEST, partition=2)
    assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 1)
    answer = host.query_offset(WALL_MS, partition=2)
    assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 0)


def test_the_latest_offset_is_of_the_present_epoch(host: Host) -> None:
    host.append(partition=2)
    host.lead(topic(4, partitions=3))
    assert host.query_offset(LATEST, partition=2).leader_epoch == 4
    assert host.query_offset(EARLIEST, partition=2).leader_epoch == 0
    assert host.query_offset(WALL_MS, partition=2).leader_epoch == 0


def test_a_query_under_way_fails_when_the_leader_epoch_ends(host: Host) -> None:
    host.holds_effects = True
    request = host.offset_request(WALL_MS)
    assert host.turn().exchanges == []
    host.core.on_control(7, host.command(LeaderAndIsr(False, [led_by_other(1)])))
    ((_, response),) = host.turn().exchanges
    (answer,) = response.offset_answers
    assert (answer.request_id, answer.error_code) == (request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    host.holds_effects = False
    assert [out.exchanges for out in host.settle()] == [[]]


def test_the_state_of_a_partition_that_is_not_here(host: Host) -> None:
    answer = host.query_state(8)
    assert (answer.error_code, answer.state) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def test_a_search_that_meets_a_fault_is_answered_and_leaves_the_directory_alone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that brings a fault of ours to light would take the disk of every replica that is asked."""

    def run(disk: Disk, effect: StorageEffect) -> bytes | DiskError:
        return failed_by_fault(effect, ValueError()) if isinstance(effect, FindRecordEffect) else execute(disk, effect)

    monkeypatch.setattr(support, "carry_out", run)
    assert host.query_offset(WALL_MS).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert host.append().error_code == ErrorCode.NONE


FIRST_ABSENT = 10
"""The first of partitions that are not there: they are answered without a disk."""


def wide(request_id: int, partitions: int) -> ReadRequest:
    wanted = [ReadPartition(TOPIC_ID, each, -1, 0, 100) for each in range(FIRST_ABSENT, FIRST_ABSENT + partitions)]
    return ReadRequest(reads=[Read(request_id, 1_000, 0, wanted)])


def turns_of(host: Host) -> list[list[tuple[int, ReadResponse]]]:
    """What each turn says of reads, until nothing waits."""
    turns = []
    while host.core.has_work:
        host.core.step(host.now_ms, WALL_MS)
        while (outputs := host.core.take_outputs()).effects:
            pass
        turns.append(outputs.reads)
    return turns


def test_the_answer_to_a_read_of_many_partitions_is_said_over_several_turns(host: Host) -> None:
    partitions = 2 * READ_PARTITIONS_PER_TURN + 100
    host.core.on_read(READ, wide(1, partitions))
    turns = turns_of(host)
    counts = [[sum(len(piece.partitions) for piece in each.pieces) for _, each in turn] for turn in turns]
    assert max(each for turn in counts for each in turn) == PARTITIONS_PER_RESPONSE
    assert max(sum(turn) for turn in counts) == READ_PARTITIONS_PER_TURN
    pieces = [piece for turn in turns for _, each in turn for piece in each.pieces]
    assert [result.index for piece in pieces for result in piece.partitions] == list(range(partitions))
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_others_go_ahead_of_reads_of_many_partitions(host: Host) -> None:
    """They waited until each was planned, 64 partitions in a turn: for four of 10,000 partitions 600 turns."""
    for request_id in range(4):
        host.core.on_read(READ, wide(request_id, 10_000))
    host.send(host.append_request())
    assert support.append_results(host.turn())[0].error_code == ErrorCode.NONE
    host.core.on_read(READ, wide(4, 1))
    answered = [piece.request_id for turn in turns_of(host) for _, each in turn for piece in each.pieces if piece.last]
    assert answered[0] == 4
    assert sorted(answered) == [0, 1, 2, 3, 4]


def test_reads_of_many_partitions_go_on_while_others_come(host: Host) -> None:
    host.core.on_read(READ, wide(1, 100))
    turns = 1
    while not host.turn().reads:
        for _ in range(70):
            host.send(host.append_request())
        turns += 1
    assert 1 < turns <= 8
