"""The leader's side: the answers to followers, what their fetches move, and what acks=all waits for."""

from __future__ import annotations

from dataclasses import replace

from barnabas.channel.messages import ReplicaHello, ReplicateRequest
from barnabas.cluster.messages import LeaderAndIsr
from barnabas.wire.errors import ErrorCode
from tests.unit.logstore.replication.support import (
    CONFIG,
    REPLICAS,
    FollowerByHand,
    at,
    leading_host,
    partition_of,
)
from tests.unit.logstore.service.support import CLUSTER_ID, WATCH, Host, batch, offsets, states, topic


def test_an_append_is_committed_when_every_member_has_it() -> None:
    host = leading_host()
    followers = [FollowerByHand(host, node_id) for node_id in (2, 3)]
    result = host.append(leader_epoch=0)
    assert (result.error_code, result.committed, result.required_offset) == (0, False, 1)
    for follower in followers:
        (data,) = follower.fetch(at(0)) or []
        assert offsets(data.records) == [0]
        assert partition_of(host).high_watermark == 0
    host.watch()
    followers[0].ask(at(1))
    assert partition_of(host).high_watermark == 0
    followers[1].ask(at(1))
    said = host.settle()
    assert partition_of(host).high_watermark == 1
    assert [state.high_watermark for out in said for state in states(out, WATCH)] == [1]
    host.core.tick(host.now_ms)
    said = host.settle()
    # Both are sent, although nothing else is new.
    assert [[data.high_watermark for data in follower.answer_in(*said) or []] for follower in followers] == [[1], [1]]


def test_a_watermark_goes_with_the_next_records() -> None:
    host = leading_host()
    followers = [FollowerByHand(host, node_id) for node_id in (2, 3)]
    for follower in followers:
        follower.fetch(at(0))
    host.append(leader_epoch=0)
    host.settle()
    for follower in followers:
        follower.ask(at(1))
    said = host.settle()
    assert partition_of(host).high_watermark == 1
    assert [follower.answer_in(*said) for follower in followers] == [None, None]
    host.append(leader_epoch=0)
    said = [host.out, *host.settle()]
    for follower in followers:
        (data,) = follower.answer_in(*said) or []
        assert (data.high_watermark, offsets(data.records)) == (1, [1])


def test_a_watermark_is_sent_when_the_time_of_a_fetch_is_over() -> None:
    host = leading_host([1, 2])
    follower = FollowerByHand(host, 2)
    follower.fetch(at(0))
    host.append(leader_epoch=0)
    host.settle()
    follower.ask(at(1))
    assert follower.answer() is None
    host.now_ms += 501
    assert [data.high_watermark for data in follower.answer() or []] == [1]


def test_where_consumers_read_from_followers_a_watermark_is_sent_at_once() -> None:
    host = leading_host([1, 2], replace(CONFIG, tells_watermarks_at_once=True))
    follower = FollowerByHand(host, 2)
    follower.fetch(at(0))
    host.append(leader_epoch=0)
    host.settle()
    follower.ask(at(1))
    assert [data.high_watermark for data in follower.answer() or []] == [1]


def test_a_fetch_waits_for_news_and_no_longer_than_it_asked() -> None:
    host = leading_host()
    follower = FollowerByHand(host, 2)
    assert follower.fetch(at(0)) is not None, "the watermark and the log start are news"
    assert follower.fetch() is None
    host.append(leader_epoch=0)
    (data,) = follower.answer_in(host.out, *host.settle()) or []
    assert offsets(data.records) == [0]
    follower.ask(at(1))
    assert follower.answer() is None
    host.now_ms += 501
    assert follower.answer() == []


def test_a_fetch_that_waits_is_answered_when_another_comes() -> None:
    host = leading_host()
    follower = FollowerByHand(host, 2)
    follower.ask()
    assert follower.answer() is None
    follower.ask(at(0))
    pieces = [response.piece for out in host.settle() for _, response in out.replication.responses]
    assert [(piece.request_id, len(piece.partitions)) for piece in pieces if piece is not None] == [(1, 0), (2, 1)]


def test_what_has_no_room_in_an_answer_comes_with_the_next() -> None:
    host = leading_host()
    host.append(batch(1, value_bytes=300), leader_epoch=0)
    host.append(batch(1, value_bytes=300), leader_epoch=0)
    follower = FollowerByHand(host, 2)
    (data,) = follower.fetch(at(0), bytes_max=100) or []
    assert offsets(data.records) == [0], "one batch at least, however large"
    (data,) = follower.fetch(at(1), bytes_max=100) or []
    assert offsets(data.records) == [1]


def test_few_replicas_are_refused_before_the_append() -> None:
    host = leading_host([1])
    assert host.append(leader_epoch=0).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert host.append(leader_epoch=0, acks=1).error_code == 0
    assert partition_of(host).high_watermark == 0, "an ISR below its minimum commits nothing"


def test_a_follower_of_another_epoch_is_refused_and_its_vote_does_not_count() -> None:
    host = leading_host()
    host.append(leader_epoch=0)
    follower = FollowerByHand(host, 2)
    (data,) = follower.fetch(at(1, epoch=1)) or []
    assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert partition_of(host).followers[2].log_end_offset == -1
    host.lead(topic(1, 1, replicas=REPLICAS, in_sync_replicas=REPLICAS))
    assert partition_of(host).followers[2].log_end_offset == 1, "it has said where it is under this epoch before"
    old = FollowerByHand(host, 3)
    (data,) = old.fetch(at(1, epoch=0)) or []
    assert (data.error_code, data.leader_epoch, data.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, 1, 1)


def test_a_log_that_diverges_gets_the_offset_of_the_divergence() -> None:
    host = leading_host()
    host.append(batch(4), leader_epoch=0)
    host.lead(topic(3, 1, replicas=REPLICAS, in_sync_replicas=REPLICAS))
    host.append(batch(4), leader_epoch=3)
    follower = FollowerByHand(host, 2)
    (data,) = follower.fetch(at(6, 0, epoch=3)) or []
    assert (data.diverging_epoch, data.diverging_end_offset, bytes(data.records)) == (0, 4, b"")
    (data,) = follower.fetch(at(6, 2, epoch=3)) or []
    assert (data.diverging_epoch, data.diverging_end_offset) == (0, 4), (
        "an epoch that is not known here: the one before"
    )
    (data,) = follower.fetch(at(9, 3, epoch=3)) or []
    assert (data.diverging_epoch, data.diverging_end_offset) == (3, 8)
    assert partition_of(host).followers[2].log_end_offset == -1, "none of these was a vote"
    (data,) = follower.fetch(at(4, 0, epoch=3)) or []
    assert offsets(data.records) == [4]


def test_a_follower_before_our_log_starts_over() -> None:
    host = leading_host()
    host.append(batch(4), leader_epoch=0)
    partition = partition_of(host)
    partition.high_watermark = 4
    partition.log.move_log_start(3)
    follower = FollowerByHand(host, 2)
    (data,) = follower.fetch(at(1, 0)) or []
    assert (data.error_code, data.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 3)


def test_a_partition_that_is_not_ours_is_refused_once() -> None:
    host = Host()
    follower = FollowerByHand(host, 2)
    (data,) = follower.fetch(at(0)) or []
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert follower.fetch() is None
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(replicas=REPLICAS, in_sync_replicas=REPLICAS)])))
    (data,) = follower.answer() or []
    assert data.error_code == 0, "now it is, without another request"


def test_what_is_being_read_fails_when_the_leader_changes() -> None:
    host = leading_host()
    host.append(leader_epoch=0)
    follower = FollowerByHand(host, 2)
    host.holds_effects = True
    follower.ask(at(0))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(1, 1, leader=3, replicas=REPLICAS)])))
    (data,) = follower.answer_in(host.turn()) or []
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_peer_that_breaks_the_conversation_loses_its_stream() -> None:
    host = leading_host()
    for first in (ReplicateRequest(), ReplicateRequest(hello=ReplicaHello("another cluster", 2, 1))):
        host.core.on_replicate(90, first)
        ((stream_id, _),) = host.turn().replication.closes
        assert stream_id == 90
    follower = FollowerByHand(host, 2)
    host.append(leader_epoch=0)
    host.holds_effects = True
    follower.ask(at(0))
    host.turn()
    follower.ask()
    follower.ask()
    ((stream_id, reason),) = host.turn().replication.closes
    assert (stream_id, reason) == (follower.stream_id, "a third fetch before the answer to the first")
    host.holds_effects = False
    again = FollowerByHand(host, 2)
    again.say(ReplicateRequest(hello=ReplicaHello(CLUSTER_ID, 2, 1)))
    assert [stream_id for stream_id, _ in host.turn().replication.closes] == [again.stream_id]


def test_leaving_forgets_everything_of_a_stream() -> None:
    host = leading_host()
    follower = FollowerByHand(host, 2)
    follower.fetch(at(0))
    host.core.on_stream_closed(follower.stream_id)
    leading = host.core._replication.leading
    assert (leading._streams, leading._followed, leading._ranges) == ({}, {}, {})
    assert not host.append(leader_epoch=0).committed


def test_a_log_start_is_sent_though_the_follower_can_t_take_the_records_that_were_sent() -> None:
    """Its disk is full: by what it deletes there it may have room again."""
    host = leading_host([1, 2])
    host.append(batch(2), leader_epoch=0)
    host.append(batch(2), leader_epoch=0)
    second, third = FollowerByHand(host, 2), FollowerByHand(host, 3)
    second.fetch(at(4))
    (data,) = third.fetch(at(2)) or []
    assert (data.log_start_offset, offsets(data.records)) == (0, [2])
    assert third.fetch() is None
    move_log_start(host, 1)
    (data,) = third.answer() or []
    assert (data.error_code, data.log_start_offset, data.records) == (0, 1, b"")
    assert third.fetch() is None, "it is sent once"
    move_log_start(host, 3)
    (data,) = third.answer() or []
    assert (data.error_code, data.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 3)


def test_a_log_start_that_the_follower_has_not_taken_is_sent_again() -> None:
    """What arrived while it wrote the previous answer is lost."""
    host = leading_host([1, 2])
    host.append(batch(2), leader_epoch=0)
    second, third = FollowerByHand(host, 2), FollowerByHand(host, 3)
    second.fetch(at(2))
    third.fetch(at(0))
    assert third.fetch() is None
    move_log_start(host, 1)
    assert third.answer() is not None
    (data,) = third.fetch(at(2)) or []
    assert (data.log_start_offset, data.records) == (1, b"")


def move_log_start(host: Host, offset: int) -> None:
    partition = partition_of(host)
    partition.log.move_log_start(offset)
    host.core._replication.log_start_moved(partition)
