"""Appends: who may, in what order, answered when, failed how."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.cluster.messages import LeaderAndIsr, StopReplica, StopReplicaPartition, UpdateMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, build_batch, parse_header
from barnabas_logstore.core.storage.effects import FlushEffect, WriteEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.service.support import (
    EXCHANGE,
    OTHER_NODE,
    READ,
    TOPIC,
    TOPIC_ID,
    WATCH,
    Host,
    append_results,
    batch,
    exchange,
    fetch,
    led_by_other,
    offsets,
    states,
    topic,
)
from tests.unit.logstore.storage.test_transactions import transactional


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE, READ, WATCH)
    host.lead()
    return host


def test_an_append_is_answered_when_it_is_written_and_is_committed_at_once_without_followers(host: Host) -> None:
    host.append(batch(3))
    result = host.append(batch(2))
    assert (result.error_code, result.base_offset, result.required_offset) == (ErrorCode.NONE, 3, 5)
    assert (result.committed, result.leader_epoch, result.log_start_offset) == (True, 0, 0)
    assert result.log_append_time_ms == -1
    assert offsets(host.read().partitions[0].records) == [0, 3]


def test_nothing_is_acknowledged_or_readable_before_it_is_written(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request())
    assert append_results(host.turn()) == []
    state = host.query_state().state
    assert state is not None
    assert (state.high_watermark, state.high_watermark_position) == (0, 0)
    host.run_effects()
    assert len(append_results(host.turn())) == 1
    state = host.query_state().state
    assert state is not None
    assert (state.high_watermark, state.high_watermark_position) == (1, len(batch()))


def test_a_write_under_way_gathers_what_comes_meanwhile_into_the_next_and_order_is_kept(host: Host) -> None:
    host.holds_effects = True
    requests = [host.append_request() for _ in range(4)]
    for request in requests:
        host.send(request)
        host.turn()
    (first,) = host.held
    assert isinstance(first, WriteEffect)
    assert len(first.buffers) == 1
    host.run_effect(first)
    assert [result.base_offset for result in append_results(host.turn())] == [0]
    (second,) = host.held
    assert isinstance(second, WriteEffect)
    assert len(second.buffers) == 3
    host.run_effect(second)
    results = append_results(host.turn())
    assert [(result.request_id, result.base_offset) for result in results] == [
        (request.request_id, offset) for offset, request in enumerate(requests) if offset
    ]


def test_appends_of_one_turn_come_back_in_one_message(host: Host) -> None:
    host.lead(topic(1, 0, partitions=3))
    requests = [host.append_request(leader_epoch=1, partition=number % 3) for number in range(9)]
    host.send(*requests)
    results = exchange(host.turn()).append_results
    assert sorted(result.request_id for result in results) == [request.request_id for request in requests]
    assert sorted(result.base_offset for result in results) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("leader_epoch", [2, 4, -1])
def test_another_leader_epoch_is_refused_with_the_newest_leader_and_epoch(host: Host, leader_epoch: int) -> None:
    host.lead(led_by_other(2))
    host.lead(topic(3, 0))
    result = host.append(leader_epoch=leader_epoch)
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.leader_id, result.leader_epoch) == (1, 3)


def test_a_leader_that_has_led_on_without_a_break_takes_appends_of_its_earlier_epochs(host: Host) -> None:
    """They are written under the present one."""
    host.lead(topic(2, 0))
    host.lead(topic(3, 0))
    result = host.append(leader_epoch=2)
    assert (result.error_code, result.leader_epoch) == (ErrorCode.NONE, 3)
    state = host.query_state().state
    assert state is not None
    assert (state.leader_epoch, state.earlier_epochs_led) == (3, 3), "it led from epoch 0 on"


def test_a_follower_refuses_and_names_the_leader(host: Host) -> None:
    host.lead(topic(1, 0, leader=OTHER_NODE, replicas=[1, 2], in_sync_replicas=[2]))
    result = host.append(leader_epoch=1)
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.leader_id, result.leader_epoch) == (OTHER_NODE, 1)


def test_a_partition_that_lives_elsewhere_is_known_by_the_metadata(host: Host) -> None:
    assert host.append(partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elsewhere = topic(7, 0, partitions=10, leader=OTHER_NODE, replicas=[OTHER_NODE], in_sync_replicas=[OTHER_NODE])
    host.control(UpdateMetadata(1, True, "", 5, [], [], [elsewhere]))
    result = host.append(partition=9)
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.leader_id, result.leader_epoch) == (OTHER_NODE, 7)


def test_acks_all_needs_the_minimum_isr_before_anything_is_written(host: Host) -> None:
    configs = {"min.insync.replicas": "2"}
    host.lead(topic(1, 0, replicas=[1, 2, 3], in_sync_replicas=[1], configs=configs))
    assert host.append(leader_epoch=1, acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    result = host.append(leader_epoch=1, acks=1)
    assert (result.error_code, result.base_offset, result.committed) == (ErrorCode.NONE, 0, False)


def test_the_minimum_isr_is_never_more_than_the_replicas_that_exist(host: Host) -> None:
    host.lead(topic(1, 0, configs={"min.insync.replicas": "2"}))
    assert host.append(leader_epoch=1, acks=-1).committed


def test_the_high_watermark_waits_for_every_member_of_the_isr(host: Host) -> None:
    host.lead(topic(1, 0, replicas=[1, 2], in_sync_replicas=[1, 2]))
    result = host.append(leader_epoch=1)
    assert (result.required_offset, result.committed) == (1, False)
    (read,) = host.read(fetch(0)).partitions
    assert (read.high_watermark, bytes(read.records)) == (0, b"")
    host.lead(topic(1, 1, replicas=[1, 2], in_sync_replicas=[1]))
    (read,) = host.read(fetch(0)).partitions
    assert (read.high_watermark, offsets(read.records)) == (1, [0])


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_unknown_acks_are_refused(host: Host, acks: int) -> None:
    assert host.append(acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_0_gets_a_result_too_so_that_the_gateway_can_close_the_connection(host: Host) -> None:
    assert host.append(acks=0).error_code == ErrorCode.NONE
    assert host.append(acks=0, leader_epoch=9).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_damaged_batch_is_refused_and_harms_no_other(host: Host) -> None:
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    host.send(host.append_request(), host.append_request(bytes(damaged)), host.append_request())
    errors = {result.request_id: result.error_code for result in append_results(host.turn())}
    assert list(errors.values()).count(ErrorCode.CORRUPT_MESSAGE) == 1
    assert offsets(host.read().partitions[0].records) == [0, 1]


def test_a_new_leader_epoch_fails_at_once_whatever_is_not_written_under_the_old_one(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request())
    host.turn()
    host.send(host.append_request())
    host.core.on_control(7, host.command(LeaderAndIsr(False, [led_by_other(1)])))
    results = append_results(host.turn())
    assert [(each.error_code, each.leader_epoch) for each in results] == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)] * 2
    host.holds_effects = False
    said = host.settle()
    assert [append_results(out) for out in said] == [[]] * len(said)


def test_another_epoch_of_the_same_leader_fails_nothing(host: Host) -> None:
    """As when a reassignment ends: Kafka asks only whether the broker still leads."""
    host.holds_effects = True
    host.send(host.append_request())
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(1, 0)])))
    assert append_results(host.turn()) == []
    host.run_effects()
    (result,) = append_results(host.turn())
    assert (result.error_code, result.base_offset, result.leader_epoch) == (ErrorCode.NONE, 0, 0)
    state = host.query_state().state
    assert state is not None
    assert state.leads_since(0)


def test_a_leader_says_whether_its_log_holds_an_append_of_an_epoch(host: Host) -> None:
    host.append()
    host.lead(topic(1, 0))
    host.append(leader_epoch=1)
    holds = {
        (epoch, offset): host.query_state(leader_epoch=epoch, required_offset=offset).holds_append
        for epoch in range(3)
        for offset in range(4)
    }
    assert [each for each, is_held in holds.items() if is_held] == [(0, 1), (1, 2)]


def test_a_shrinking_isr_under_the_same_leader_fails_nothing(host: Host) -> None:
    host.lead(topic(1, 0, replicas=[1, 2], in_sync_replicas=[1, 2]))
    host.holds_effects = True
    host.send(host.append_request(leader_epoch=1))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(1, 1, replicas=[1, 2], in_sync_replicas=[1])])))
    assert append_results(host.turn()) == []
    host.run_effects()
    (result,) = append_results(host.turn())
    assert (result.error_code, result.committed) == (ErrorCode.NONE, True)


def test_a_stopped_replica_fails_what_is_pending(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request())
    host.turn()
    stop = StopReplica([StopReplicaPartition(TOPIC, TOPIC_ID, 0, 0, delete=False)])
    host.core.on_control(7, host.command(stop))
    (result,) = append_results(host.turn())
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    host.holds_effects = False
    host.settle()
    assert host.append().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_retry_whose_first_copy_is_still_being_written_is_acknowledged_with_it(host: Host) -> None:
    records = build_batch([Record(b"k", b"v", 1_700_000_000_000)], producer_id=4, producer_epoch=0, base_sequence=0)
    host.holds_effects = True
    host.send(host.append_request(records))
    host.turn()
    host.send(host.append_request(records))
    assert append_results(host.turn()) == []
    host.run_effects()
    assert [result.base_offset for result in append_results(host.turn())] == [0, 0]
    host.holds_effects = False
    assert host.append(records).base_offset == 0
    assert offsets(host.read().partitions[0].records) == [0]


@pytest.mark.parametrize("operation", ["write_at", "open"])
def test_an_io_error_takes_the_directory_offline(host: Host, operation: str) -> None:
    host.lead(topic(1, 0, partitions=2, configs={"segment.bytes": str(1 << 20)}))
    host.watch(1)
    host.append(batch(value_bytes=900_000), leader_epoch=1)
    host.disk.faults.append(Fault(operation, "orders-0"))
    # Too large for what is left of the first segment: the roll opens files.
    host.send(host.append_request(batch(value_bytes=900_000), leader_epoch=1))
    host.send(host.append_request(leader_epoch=1, partition=1))
    out = host.turn()
    assert ErrorCode.KAFKA_STORAGE_ERROR in [result.error_code for result in append_results(out)]
    assert [path for path, _ in out.offline] == ["/data0"]
    assert host.core.all_directories_offline
    (state,) = states(out)
    assert (state.partition, state.online, state.leading) == (1, False, False)
    assert host.append(leader_epoch=1, partition=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert host.read(fetch(0)).partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert host.query_offset(-1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    response = host.lead(topic(2, 0))
    assert [error.error_code for error in response.partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_another_directory_goes_on() -> None:
    host = Host(directories=2)
    host.greet(EXCHANGE)
    host.lead(topic(partitions=2))
    host.disk.faults.append(Fault("write_at", "orders-0"))
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not host.core.all_directories_offline
    assert host.append(partition=1).error_code == ErrorCode.NONE


def test_a_failed_flush_takes_the_directory_offline_and_is_never_tried_again(host: Host) -> None:
    host.lead(topic(1, 0, configs={"flush.ms": "50"}))
    host.append(leader_epoch=1)
    host.disk.faults.append(Fault("flush"))
    for now_ms in (0, 1_000, 2_000):
        host.now_ms = now_ms
        host.core.tick(now_ms)
        flushes = [effect for effect in host.take_effects() if isinstance(effect, FlushEffect)]
        for effect in flushes:
            host.held.append(effect)
            host.run_effect(effect)
    assert host.core.all_directories_offline
    assert host.disk.faults[0].hits == 1


def test_a_topic_that_flushes_every_message_is_durable_when_it_answers(host: Host) -> None:
    host.lead(topic(1, 0, configs={"flush.messages": "1"}))
    host.append(leader_epoch=1)
    host.disk.lose_power(Random(1))
    revived = Host(host.disk)
    revived.greet(READ)
    revived.lead(topic(2, 0))
    assert offsets(revived.read().partitions[0].records) == [0]


def test_the_first_batch_of_a_transaction_needs_the_guard_that_it_is_sent_back_with(host: Host) -> None:
    refused = host.append(transactional(0))
    assert (refused.error_code, refused.base_offset) == (ErrorCode.INVALID_TXN_STATE, -1)
    assert refused.verification_guard > 0
    behind = host.append(transactional(1))
    assert behind.verification_guard == refused.verification_guard
    for sequence in (0, 1):
        request = host.append_request(transactional(sequence))
        request.verification_guard = refused.verification_guard
        host.send(request)
        (result,) = append_results(host.turn())
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, sequence)
    assert host.append(transactional(2)).base_offset == 2, "it is open now"


def test_a_guard_that_is_void_is_replaced_by_the_present_one(host: Host) -> None:
    """As the marker of the transaction before voids it, which at version 2 a client does not wait for."""
    guard = host.append(transactional(0)).verification_guard
    request = host.append_request(transactional(0))
    partition = host.core._replicas.by_key[request.topic_id, request.partition]
    partition.log.state.verification_guards.void(parse_header(memoryview(request.records)).producer_id)
    request.verification_guard = guard
    host.send(request)
    (result,) = append_results(host.turn())
    assert result.error_code == ErrorCode.INVALID_TXN_STATE
    assert result.verification_guard not in (0, guard)
    again = host.append_request(transactional(0))
    again.verification_guard = result.verification_guard
    host.send(again)
    (result,) = append_results(host.turn())
    assert result.error_code == ErrorCode.NONE
