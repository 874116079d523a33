"""Calls of gateways for administrative APIs: their turns and ends, where epochs end, what is known of producers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.cluster.administration import (
    ActiveProducer,
    AdministrationRequest,
    AdministrationResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    EndOffsetAnswer,
    EndOffsetQuery,
    EndOffsetsRequest,
    EndOffsetsResponse,
    LatestOffset,
    TopicIdPartition,
)
from barnabas.cluster.messages import LeaderAndIsr
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.administration.dispatch import CALLS_MAX, PIECES_PER_STEP
from barnabas_logstore.core.administration.end_offsets import QUERIES_PER_PIECE
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from tests.unit.logstore.service.support import EXCHANGE, NODE_ID, TOPIC_ID, WALL_MS, Host, append_results, batch, topic


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE)
    host.lead()
    return host


def ask(host: Host, request: AdministrationRequest, call_id: int = 1) -> AdministrationResponse:
    """One call, in as many turns as it takes."""
    assert host.core.on_administration(call_id, request)
    ((answered, response),) = [answer for out in host.settle() for answer in out.administration]
    assert answered == call_id
    return response


def answered(host: Host, leader_epoch: int, *, current: int = -1, partition: int = 0) -> EndOffsetAnswer:
    response = ask(host, EndOffsetsRequest([EndOffsetQuery(TOPIC_ID, partition, current, leader_epoch)]))
    assert isinstance(response, EndOffsetsResponse)
    (answer,) = response.partitions
    return answer


def end_offset(host: Host, leader_epoch: int, *, current: int = -1, partition: int = 0) -> EndOffsetAnswer:
    """Without how far it can be read."""
    return replace(answered(host, leader_epoch, current=current, partition=partition), latest=None)


def producers(host: Host, *, partition: int = 0) -> list[ActiveProducer] | int:
    response = ask(host, DescribeProducersRequest([TopicIdPartition(TOPIC_ID, partition)]))
    assert isinstance(response, DescribeProducersResponse)
    (described,) = response.partitions
    return described.error_code or described.producers


def test_an_epoch_ends_where_the_next_begins_and_the_latest_at_the_log_end(host: Host) -> None:
    host.append(batch(3))
    host.lead(topic(4))
    host.append(batch(2), leader_epoch=4)
    assert end_offset(host, 0) == EndOffsetAnswer(0, 0, 3)
    assert end_offset(host, 2) == EndOffsetAnswer(0, 0, 3)
    assert end_offset(host, 4) == EndOffsetAnswer(0, 4, 5)


@pytest.mark.parametrize("leader_epoch", [-1, 5, 2**31 - 1])
def test_an_epoch_after_all_and_none_at_all_are_unknown(host: Host, leader_epoch: int) -> None:
    host.append()
    assert end_offset(host, leader_epoch) == EndOffsetAnswer(0, -1, -1)


def test_how_far_it_can_be_read_is_the_high_watermark() -> None:
    """Two in sync: what the other one has not fetched is at the log's end, and nobody can read it."""
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(0, replicas=[NODE_ID, 2], in_sync_replicas=[NODE_ID, 2]))
    host.append()
    assert answered(host, 0) == EndOffsetAnswer(0, 0, 1, LatestOffset(0))


def test_a_leader_that_has_not_heard_of_its_followers_does_not_know_how_far_it_can_be_read(host: Host) -> None:
    host.lead(topic(0, 1, replicas=[NODE_ID, 2], in_sync_replicas=[NODE_ID, 2]))
    host.append()
    host.lead(topic(1, 2, replicas=[NODE_ID, 2], in_sync_replicas=[NODE_ID, 2]))
    assert answered(host, 1) == EndOffsetAnswer(0, 1, 1)


def test_an_epoch_before_all_that_are_known_ends_where_the_first_begins() -> None:
    epochs = LeaderEpochs()
    epochs.assign(3, 10)
    epochs.assign(7, 20)
    assert epochs.end_offset_of(1, 30) == (1, 10)
    assert epochs.end_offset_of(5, 30) == (3, 20)
    assert LeaderEpochs().end_offset_of(0, 0) == (-1, -1)


def test_an_end_offset_is_fenced_by_the_current_epoch(host: Host) -> None:
    host.lead(topic(4))
    assert end_offset(host, 0, current=3) == EndOffsetAnswer(ErrorCode.FENCED_LEADER_EPOCH)
    assert end_offset(host, 0, current=5) == EndOffsetAnswer(ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert end_offset(host, 0, current=4).error_code == ErrorCode.NONE
    host.lead(topic(5, leader=2))
    assert end_offset(host, 0) == EndOffsetAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert end_offset(host, 0, partition=9) == EndOffsetAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_producers_are_described_as_they_wrote_last(host: Host) -> None:
    records = [Record(None, b"v", WALL_MS + index) for index in range(3)]
    host.append(build_batch(records, producer_id=77, producer_epoch=2, base_sequence=0))
    host.append(batch())
    assert producers(host) == [ActiveProducer(77, 2, 2, WALL_MS + 2, -1, -1)]
    assert producers(host, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    host.lead(topic(5, leader=2))
    assert producers(host) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_large_call_leaves_the_data_and_the_commands_their_turns(host: Host) -> None:
    pieces = 3 * PIECES_PER_STEP
    query = EndOffsetQuery(TOPIC_ID, 0, -1, 0)
    assert host.core.on_administration(1, EndOffsetsRequest([query] * (pieces * QUERIES_PER_PIECE)))
    host.send(host.append_request())
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(0, 1)])))
    out = host.turn()
    assert append_results(out)
    assert out.controls
    assert not out.administration
    assert host.core.has_work
    ((_, response),) = [answer for out in host.settle() for answer in out.administration]
    assert isinstance(response, EndOffsetsResponse)
    assert len(response.partitions) == pieces * QUERIES_PER_PIECE


def test_small_calls_do_not_wait_for_large_ones(host: Host) -> None:
    query = EndOffsetQuery(TOPIC_ID, 0, -1, 0)
    assert host.core.on_administration(1, EndOffsetsRequest([query] * (100 * PIECES_PER_STEP * QUERIES_PER_PIECE)))
    assert host.core.on_administration(2, EndOffsetsRequest([query]))
    assert [call_id for call_id, _ in host.turn().administration] == [2]


def test_a_cancelled_call_is_dropped_wherever_it_is(host: Host) -> None:
    query = EndOffsetQuery(TOPIC_ID, 0, -1, 0)
    host.core.on_administration(1, EndOffsetsRequest([query]))
    host.core.on_administration(2, EndOffsetsRequest([query] * (2 * PIECES_PER_STEP * QUERIES_PER_PIECE)))
    host.core.on_administration_cancelled(1)
    assert not host.turn().administration
    host.core.on_administration_cancelled(2)
    assert not [answer for out in host.settle() for answer in out.administration]
    host.core.on_administration_cancelled(2)
    assert not host.core.has_work


def test_calls_under_way_are_bounded_and_a_stopping_logstore_takes_none(host: Host) -> None:
    request = EndOffsetsRequest([])
    assert [host.core.on_administration(call_id, request) for call_id in range(CALLS_MAX + 1)].count(False) == 1
    assert len(host.turn().administration) == PIECES_PER_STEP
    assert sum(len(out.administration) for out in host.settle()) == CALLS_MAX - PIECES_PER_STEP
    assert host.core.on_administration(CALLS_MAX + 1, request)
    host.core.stopping.begin()
    assert not host.core.on_administration(CALLS_MAX + 2, request)
    assert not host.core.is_idle
    host.settle()
    assert host.core.is_idle
