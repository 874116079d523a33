"""The actor's turn: control before data, bounded steps, credit, hellos, housekeeping, the clean stop."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.channel.messages import Append, ExchangeRequest, Hello, Read, ReadRequest, WatchRequest
from barnabas.cluster.messages import LeaderAndIsr
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effects import FlushEffect, ReplaceEffect, StorageEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.service.support import (
    BROKER_EPOCH,
    CLUSTER_ID,
    EXCHANGE,
    NODE_ID,
    READ,
    Host,
    append_results,
    batch,
    exchange,
    fetch,
    led_by_other,
    offsets,
    topic,
)

OTHER_EXCHANGE = EXCHANGE + 10
MARKER = "/data0/.kafka_cleanshutdown"


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead()
    return host


# --- steps ---


def test_a_command_is_carried_out_before_the_next_data_step_however_much_data_waits() -> None:
    host = Host(step_requests_max=10)
    host.greet(EXCHANGE)
    host.lead()
    host.send(*[host.append_request() for _ in range(25)])
    assert len(append_results(host.turn())) == 10
    host.core.on_control(7, host.command(LeaderAndIsr(False, [led_by_other(1)])))
    out = host.turn()
    assert len(out.controls) == 1
    assert {result.error_code for result in append_results(out)} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_data_step_ends_by_requests_inside_a_message_and_keeps_the_order() -> None:
    host = Host(step_requests_max=10)
    host.greet(EXCHANGE)
    host.lead()
    requests = [host.append_request() for _ in range(25)]
    host.send(*requests)
    said = host.settle()
    assert [len(append_results(out)) for out in said] == [10, 10, 5]
    results = [result for out in said for result in append_results(out)]
    assert [(each.request_id, each.base_offset) for each in results] == [
        (request.request_id, offset) for offset, request in enumerate(requests)
    ]


def test_a_data_step_ends_by_bytes() -> None:
    host = Host(step_bytes_max=5 * len(batch(value_bytes=1000)))
    host.greet(EXCHANGE)
    host.lead()
    host.send(*[host.append_request(batch(value_bytes=1000)) for _ in range(12)])
    assert [len(append_results(out)) for out in host.settle()] == [5, 5, 2]


def test_all_commands_that_have_come_are_carried_out_in_one_step_in_their_order(host: Host) -> None:
    commands = [host.command(LeaderAndIsr(False, [topic(epoch, 0)])) for epoch in (3, 2, 4)]
    for command in commands:
        host.core.on_control(7, command)
    answers = [response for _, response in host.turn().controls]
    assert [answer.sequence for answer in answers] == [command.sequence for command in commands]
    assert [len(answer.partition_errors) for answer in answers] == [0, 1, 0]


def test_an_idle_core_has_nothing_to_say(host: Host) -> None:
    out = host.turn()
    assert (out.exchanges, out.reads, out.watches, out.controls, out.closes) == ([], [], [], [], [])
    assert not host.core.has_work
    assert host.core.is_idle


# --- the conversation ---


def test_a_hello_is_answered_with_a_welcome_and_the_first_credit(host: Host) -> None:
    host.core.on_exchange(OTHER_EXCHANGE, ExchangeRequest(Hello(CLUSTER_ID, "gateway-1/0")))
    response = exchange(host.turn(), OTHER_EXCHANGE)
    assert response.welcome is not None
    assert (response.welcome.node_id, response.welcome.broker_epoch) == (NODE_ID, BROKER_EPOCH)
    assert response.credit is not None
    assert response.credit.requests > 0
    assert response.credit.bytes > 0


def test_a_hello_of_another_cluster_ends_the_stream(host: Host) -> None:
    stranger = Hello("another", "")
    host.core.on_exchange(21, ExchangeRequest(stranger))
    host.core.on_read(22, ReadRequest(stranger))
    host.core.on_watch(23, WatchRequest(stranger))
    out = host.turn()
    assert [stream_id for stream_id, _ in out.closes] == [21, 22, 23]
    assert (out.exchanges, out.reads, out.watches) == ([], [], [])


def test_requests_before_the_hello_end_the_stream(host: Host) -> None:
    host.core.on_exchange(21, ExchangeRequest(appends=[host.append_request()]))
    host.core.on_read(22, ReadRequest(reads=[Read(1, 100, 0, [fetch()])]))
    host.core.on_watch(23, WatchRequest())
    assert [stream_id for stream_id, _ in host.turn().closes] == [21, 22, 23]
    assert offsets(host.read().partitions[0].records) == []


def test_a_second_hello_ends_the_stream(host: Host) -> None:
    host.core.on_exchange(EXCHANGE, ExchangeRequest(Hello(CLUSTER_ID, "")))
    assert [stream_id for stream_id, _ in host.turn().closes] == [EXCHANGE]


def test_a_stream_that_is_being_ended_is_not_listened_to(host: Host) -> None:
    host.core.on_exchange(EXCHANGE, ExchangeRequest(Hello(CLUSTER_ID, "")))
    host.send(host.append_request())
    out = host.turn()
    assert out.exchanges == []
    host.core.on_stream_closed(EXCHANGE)
    host.core.on_stream_closed(EXCHANGE)
    assert offsets(host.read().partitions[0].records) == []


def test_requests_that_a_stream_has_not_begun_are_dropped_with_it(host: Host) -> None:
    host.send(host.append_request())
    host.core.on_stream_closed(EXCHANGE)
    host.turn()
    assert offsets(host.read().partitions[0].records) == []


# --- credit ---


def test_what_is_handled_comes_back_as_credit_with_the_answers() -> None:
    host = Host(queued_requests_max=8, queued_request_bytes_max=1 << 20)
    host.greet(EXCHANGE)
    host.lead()
    records = batch()
    host.send(*[host.append_request(records) for _ in range(5)])
    credit = exchange(host.turn()).credit
    assert credit is not None
    assert (credit.requests, credit.bytes) == (5, 5 * len(records))


def test_bytes_come_back_only_when_they_are_written() -> None:
    host = Host(queued_requests_max=8, queued_request_bytes_max=1 << 20)
    host.greet(EXCHANGE)
    host.lead()
    host.holds_effects = True
    host.send(host.append_request())
    assert host.turn().exchanges == []
    host.send(host.append_request(partition=5))
    credit = exchange(host.turn()).credit
    assert credit is not None
    assert (credit.requests, credit.bytes) == (2, len(batch()))


def test_a_stream_that_overdraws_its_credit_is_ended() -> None:
    host = Host(queued_requests_max=8, queued_request_bytes_max=1 << 20)
    host.greet(EXCHANGE)
    host.lead()
    host.holds_effects = True
    for _ in range(9):
        host.send(host.append_request())
    assert [stream_id for stream_id, _ in host.turn().closes] == [EXCHANGE]


def test_credit_for_reads_comes_back_with_answers_and_cancels() -> None:
    host = Host(queued_requests_max=8)
    host.greet(READ)
    host.lead()
    for _ in range(20):
        host.read()
    for number in range(20):
        host.core.on_read(READ, ReadRequest(reads=[Read(900 + number, 100, 0, [fetch()])], cancels=[]))
        host.core.on_read(READ, ReadRequest(cancels=[900 + number]))
        ((_, response),) = host.turn().reads
        assert response.credit is not None
        assert response.credit.requests == 1


# --- housekeeping ---


def due(host: Host, now_ms: int) -> list[StorageEffect]:
    host.core.tick(now_ms)
    host.held += host.core.take_effects()
    effects = list(host.held)
    host.run_effects()
    return effects


def flushes(effects: list[StorageEffect]) -> list[FlushEffect]:
    return [effect for effect in effects if isinstance(effect, FlushEffect)]


def test_flushes_come_when_the_topic_wants_them(host: Host) -> None:
    host.lead(topic(1, 0, configs={"flush.ms": "1000"}))
    due(host, 0)
    host.append(leader_epoch=1)
    flushed = [now_ms for now_ms in (100, 900, 1_000, 1_100, 5_000) if flushes(due(host, now_ms))]
    assert flushed == [1_100]


def replaced(effects: list[StorageEffect]) -> list[str]:
    return [effect.replacement.path for effect in effects if isinstance(effect, ReplaceEffect)]


def test_checkpoints_come_every_few_seconds_when_something_has_moved(host: Host) -> None:
    host.lead(topic(1, 0, configs={"flush.ms": "6000"}))
    due(host, 0)
    host.append(leader_epoch=1)
    assert replaced(due(host, 4_900)) == []
    assert replaced(due(host, 5_000)) == ["/data0/replication-offset-checkpoint"]
    assert replaced(due(host, 10_000)) == []
    due(host, 14_900)
    assert replaced(due(host, 60_000)) == ["/data0/recovery-point-offset-checkpoint"]
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        assert host.disk.read_file(f"/data0/{name}") == b"0\n1\norders 0 1\n"


def test_the_high_watermark_survives_a_restart_as_the_checkpoint_has_it(host: Host) -> None:
    host.append()
    due(host, 5_000)
    host.append()
    revived = Host(host.disk)
    revived.greet(EXCHANGE)
    state = revived.query_state().state
    assert state is not None
    assert (state.leading, state.high_watermark) == (False, 1)


# --- the clean stop ---


def stop(host: Host) -> list[str]:
    host.core.stopping.begin()
    host.settle()
    host.held += host.core.stopping.take_closing_flushes()
    host.run_effects()
    assert host.core.is_idle
    return host.core.stopping.shut_down()


def test_a_clean_stop_makes_everything_durable_and_says_so(host: Host) -> None:
    host.append(batch(3))
    assert stop(host) == []
    assert host.disk.read_file(MARKER) == b'{"version":0,"brokerEpoch":40}'
    host.disk.lose_power(Random(1))
    revived = Host(host.disk)
    assert revived.log_directories[0].was_shut_down_cleanly
    revived.greet(READ)
    revived.lead(topic(1, 0))
    assert offsets(revived.read().partitions[0].records) == [0]


def test_a_stopping_logstore_finishes_what_it_began_and_refuses_the_rest_unwritten(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request())
    host.turn()
    host.send(host.append_request())
    host.core.stopping.begin()
    host.send(host.append_request())
    assert [result.error_code for result in append_results(host.turn())] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert not host.core.is_idle
    host.holds_effects = False
    results = [result for out in host.settle() for result in append_results(out)]
    assert [(each.error_code, each.base_offset) for each in results] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]
    assert stop(host) == []
    revived = Host(host.disk)
    revived.greet(READ)
    revived.lead(topic(1, 0))
    assert offsets(revived.read().partitions[0].records) == [0, 1]


def test_a_directory_that_failed_gets_no_marker(host: Host) -> None:
    host.append()
    host.core.stopping.begin()
    host.settle()
    host.disk.faults.append(Fault("flush_volume", "/data0"))
    host.held += host.core.stopping.take_closing_flushes()
    host.run_effects()
    assert host.core.stopping.shut_down() == ["/data0"]
    assert not host.disk.exists(MARKER)


def test_appends_to_many_partitions_keep_their_order_whatever_the_disks_do() -> None:
    """Effects end in any order; every partition still answers in the order asked, and has every record once."""
    random = Random(7)
    host = Host(step_requests_max=7)
    host.greet(EXCHANGE, OTHER_EXCHANGE, READ)
    host.lead(topic(partitions=4))
    host.holds_effects = True
    asked: dict[int, list[int]] = {number: [] for number in range(4)}
    answered: dict[int, list[int]] = {number: [] for number in range(4)}
    partitions: dict[int, int] = {}

    def note() -> None:
        for result in append_results(host.out, EXCHANGE):
            assert result.error_code == ErrorCode.NONE
            answered[partitions[result.request_id]].append(result.request_id)

    for _ in range(200):
        appends: list[Append] = []
        for _ in range(random.randrange(4)):
            append = host.append_request(partition=random.randrange(4))
            partitions[append.request_id] = append.partition
            asked[append.partition].append(append.request_id)
            appends.append(append)
        host.send(*appends)
        host.turn()
        note()
        while host.held and random.random() < 0.6:
            host.run_effect(random.choice(host.held))
    host.holds_effects = False
    for _ in range(3):
        host.settle()
        note()
    assert answered == asked
    for partition, requests in asked.items():
        (result,) = host.read(fetch(partition=partition)).partitions
        assert offsets(result.records) == list(range(len(requests)))
