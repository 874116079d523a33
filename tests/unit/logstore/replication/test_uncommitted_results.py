"""Results with acks=all that a leader holds for a moment: what ends it, and how they leave."""

from __future__ import annotations

import pytest

from barnabas.channel.credits import STREAM_REQUESTS_MIN
from barnabas.channel.messages import AppendResult, ExchangeRequest
from barnabas.channel.timing import Timed, Times
from barnabas.cluster.messages import LeaderAndIsr, StopReplica
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.data import uncommitted_results
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.replica.containment import ISR
from barnabas_logstore.core.storage.effects import WriteEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.unit.logstore.replication.support import REPLICAS, FollowerByHand, at, leading_host
from tests.unit.logstore.service.support import (
    EXCHANGE,
    TOPIC,
    Host,
    append_results,
    exchange,
    led_by_other,
    states,
    topic,
)

HOLD_MS = 10


@pytest.fixture
def host() -> Host:
    return leading_host(commit_hold_ms=HOLD_MS)


@pytest.fixture
def followers(host: Host) -> list[FollowerByHand]:
    """Both in sync, and waiting for news."""
    both = [FollowerByHand(host, node_id) for node_id in (2, 3)]
    for follower in both:
        follower.fetch(at(0))
        follower.fetch()
    return both


def held_append(host: Host, count: int = 1) -> None:
    host.send(*[host.append_request() for _ in range(count)])
    assert results(host) == []


def results(host: Host) -> list[AppendResult]:
    return [result for out in host.settle() for result in append_results(out)]


def test_a_result_leaves_committed_in_the_turn_in_which_the_last_follower_has_it(
    host: Host, followers: list[FollowerByHand]
) -> None:
    held_append(host)
    followers[0].ask(at(1))
    assert results(host) == []
    followers[1].ask(at(1))
    (result,) = append_results(host.turn())
    assert (result.error_code, result.committed, result.base_offset) == (0, True, 0)
    assert host.core.next_deadline_ms() is None


def test_followers_get_the_batch_in_the_turn_that_writes_it(host: Host, followers: list[FollowerByHand]) -> None:
    host.send(host.append_request())
    out = host.turn()
    for follower in followers:
        (data,) = follower.answer_in(out) or []
        assert len(data.records) > 0


def test_what_takes_longer_leaves_uncommitted_and_purgatory_has_the_wait(host: Host) -> None:
    held_append(host)
    assert host.core.next_deadline_ms() == host.now_ms + HOLD_MS
    host.now_ms += HOLD_MS - 1
    assert results(host) == []
    held_append(host)
    host.now_ms += 1
    (result,) = results(host)
    assert (result.error_code, result.committed, result.required_offset) == (0, False, 1)
    assert host.core.next_deadline_ms() == host.now_ms - 1 + HOLD_MS, "that of the second"


def test_results_leave_in_the_order_of_their_appends(host: Host, followers: list[FollowerByHand]) -> None:
    held_append(host, 3)
    held_append(host)
    for follower in followers:
        follower.ask(at(3))
    assert [result.base_offset for result in results(host)] == [0, 1, 2]
    followers[0].ask(at(4))
    followers[1].ask(at(4))
    assert [result.base_offset for result in results(host)] == [3]


def test_other_acks_and_an_isr_under_its_minimum_wait_for_nothing(host: Host) -> None:
    assert not host.append(acks=1).committed
    assert not host.append(acks=0).committed
    held_append(host)
    host.lead(topic(0, 1, replicas=REPLICAS, in_sync_replicas=[1], configs={"min.insync.replicas": "2"}))
    host.now_ms += HOLD_MS
    assert [result.committed for result in results(host)] == [False]


@pytest.mark.parametrize("how", ["another leads", "it is stopped", "it is deleted", "the logstore stops"])
def test_a_leader_that_leads_no_longer_calls_nothing_committed(
    host: Host, followers: list[FollowerByHand], how: str
) -> None:
    """The next leader may have less of the log, and reach the same offset with other records."""
    held_append(host)
    match how:
        case "another leads":
            request = host.command(LeaderAndIsr(False, [led_by_other(1)]))
            host.core.on_control(7, request)
        case "the logstore stops":
            host.core.stopping.begin()
        case _:
            request = host.command(StopReplica([host.stopped(delete=how == "it is deleted")]))
            host.core.on_control(7, request)
    (result,) = results(host)
    assert (result.error_code, result.committed, result.required_offset) == (0, False, 1)
    assert host.core.next_deadline_ms() is None


def test_another_epoch_of_the_same_leader_ends_nothing(host: Host) -> None:
    held_append(host)
    host.lead(topic(1, 1, replicas=REPLICAS, in_sync_replicas=REPLICAS, configs={"min.insync.replicas": "2"}))
    for follower in [FollowerByHand(host, node_id) for node_id in (2, 3)]:
        follower.ask(at(1, epoch=1))
    (result,) = results(host)
    assert (result.committed, result.leader_epoch) == (True, 0)


def test_a_directory_that_goes_offline_ends_the_hold(host: Host) -> None:
    held_append(host)
    host.holds_effects = True
    host.send(host.append_request())
    host.turn()
    (write,) = host.held
    assert isinstance(write, WriteEffect)
    host.held.clear()
    host.core.on_io_done(write, DiskError(DiskErrorKind.IO, "write", "broken"))
    first, second = append_results(host.turn())
    assert sorted([first.error_code, second.error_code]) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    assert not first.committed
    assert not second.committed


def test_what_is_held_is_bounded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncommitted_results, "HELD_MAX", 2)
    host.send(*[host.append_request() for _ in range(3)])
    assert [(result.base_offset, result.committed) for result in results(host)] == [(2, False)]


def test_credit_comes_back_while_results_are_held(host: Host) -> None:
    """A gateway may have no more than this to spend, and nothing else to wait for."""
    host.send(*[host.append_request() for _ in range(STREAM_REQUESTS_MIN)])
    response = exchange(host.turn())
    assert response.append_results == []
    assert response.credit is not None
    assert response.credit.requests >= STREAM_REQUESTS_MIN


def test_a_stream_that_is_gone_gets_nothing(host: Host, followers: list[FollowerByHand]) -> None:
    held_append(host)
    host.core.on_stream_closed(EXCHANGE)
    for follower in followers:
        follower.ask(at(1))
    assert results(host) == []
    assert host.core.next_deadline_ms() is None


def test_the_hold_is_timed_apart_from_the_work(host: Host, followers: list[FollowerByHand]) -> None:
    append = host.append_request()
    host.clock_us = 1_000
    host.core.on_exchange(EXCHANGE, ExchangeRequest(appends=[append], timed=[Timed(append.request_id)]))
    host.holds_effects = True
    host.clock_us += 20
    host.turn()
    host.clock_us += 300
    host.holds_effects = False
    host.run_effects()
    host.settle()
    host.clock_us += 4_000
    for follower in followers:
        follower.ask(at(1))
    assert exchange(host.turn()).times == [Times(append.request_id, 20, 300, 4_000)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
def test_a_watermark_whose_move_is_not_announced_takes_the_partition_offline(
    host: Host, followers: list[FollowerByHand], monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """It was announced with the next move, which might never come: results that waited for it waited on."""
    announce = Checkpoints.high_watermark_moved

    def raises(self: Checkpoints, log: PartitionLog) -> None:
        if after:
            announce(self, log)
        raise RuntimeError("planted")

    host.watch()
    held_append(host)
    followers[0].ask(at(1))
    host.settle()
    monkeypatch.setattr(Checkpoints, "high_watermark_moved", raises)
    followers[1].ask(at(1))
    said = host.settle()
    assert [name for out in said for name, _ in out.offline_partitions] == [f"{TOPIC}-0"]
    assert host.core.contained.counts[ISR] == 1
    assert [out.closes for out in said] == [[]] * len(said), "the follower has nothing to do with it"
    (result,) = [result for out in said for result in append_results(out)]
    assert not result.committed, "its gateway asks purgatory, which hears that the partition is offline"
    assert [state.online for out in said for state in states(out)] == [False]
