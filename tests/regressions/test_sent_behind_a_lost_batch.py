"""What an idempotent producer sent behind a batch that was lost is not written before that batch comes again.

Found by faults: a leader was killed with a batch under way; the gateway answered that one with REQUEST_TIMED_OUT, and
sent the next ones, which had come in on the same connection, to the next leader. That one lacked the lost batch and
answered OUT_OF_ORDER_SEQUENCE_NUMBER, which librdkafka takes for a gap: it began a new epoch, and sent again under it
what it had no answer for, although some of it was in the log. A broker that dies takes the connection with it, so
Kafka's clients never see that.
"""

from __future__ import annotations

import struct

import pytest

from barnabas.channel.messages import Outcome
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.backends.partition_appends import HELD_BACK_MS
from tests.unit.gateway.world import Client, World, topic

NOT_LEADER, TIMED_OUT = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT
LED_BY_2 = topic(leaders=(2,), epoch=6)


def batch(sequence: int, producer_id: int = 1000, producer_epoch: int = 0) -> bytes:
    """What the gateway sees of one."""
    return bytes(16) + b"\x02" + bytes(26) + struct.pack(">qhi", producer_id, producer_epoch, sequence) + bytes(4)


def codes(client: Client) -> list[int]:
    return [code for answer in client.error_codes() for code in answer]


def sent(world: World, node_id: int) -> list[bytes]:
    return [bytes(append.records) for append in world.logstores[node_id].appends]


def lose(sequence: int = 5) -> tuple[World, Client]:
    """A world whose leader died with one batch under way, and has a successor."""
    world = World(nodes=(1, 2))
    client = world.client()
    client.produce(0, records=batch(sequence))
    world.logstores[1].down()
    assert codes(client) == [TIMED_OUT]
    world.update(LED_BY_2)
    return world, client


def test_the_next_leader_gets_nothing_before_the_lost_batch() -> None:
    world, client = lose(5)
    client.produce(0, records=batch(6))
    client.produce(0, records=batch(7))
    assert codes(client) == [TIMED_OUT, NOT_LEADER, NOT_LEADER]
    client.produce(0, records=batch(5))
    client.produce(0, records=batch(6))
    assert sent(world, 2) == [batch(5), batch(6)]


def test_what_waits_as_the_stream_is_lost_is_held_back() -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    client.produce(0, records=batch(5))
    world.update(LED_BY_2)
    client.produce(0, records=batch(6))
    world.logstores[1].down()
    assert codes(client) == [TIMED_OUT, NOT_LEADER]
    assert sent(world, 2) == []


def test_what_waits_as_the_old_leader_refuses_is_held_back() -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    client.produce(0, records=batch(5))
    world.update(LED_BY_2)
    client.produce(0, records=batch(6))
    world.logstores[1].append_result(error_code=NOT_LEADER, leader_epoch=6, leader_id=2)
    assert codes(client) == [NOT_LEADER, NOT_LEADER]
    assert sent(world, 2) == []


def test_a_batch_that_was_parked_is_the_first_to_come_again() -> None:
    """The one behind it was lost before it."""
    world = World(nodes=(1, 2), pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1, records=batch(5))
    world.logstores[1].append_result()
    client.produce(0, acks=-1, records=batch(6))
    world.logstores[1].down()
    world.update(LED_BY_2)
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.FENCED, NOT_LEADER)
    world.logstores[2].state_answer(high_watermark=7, leader_epoch=6)
    assert codes(client) == [NOT_LEADER, TIMED_OUT]
    client.produce(0, acks=-1, records=batch(6))
    assert sent(world, 2) == []
    client.produce(0, acks=-1, records=batch(5))
    assert sent(world, 2) == [batch(5)]


@pytest.mark.parametrize(
    "records",
    [batch(5), batch(4), batch(0, producer_epoch=1), batch(6, producer_id=1001), batch(-1, -1, -1)],
    ids=["the lost batch", "one before it", "another epoch", "another producer", "no idempotent producer"],
)
def test_nothing_else_is_held_back(records: bytes) -> None:
    world, client = lose(5)
    client.produce(0, records=records)
    assert sent(world, 2) == [records]


def test_other_connections_and_partitions_are_left_alone() -> None:
    world = World(topic(leaders=(1, 1)), nodes=(1, 2))
    client, other = world.client(), world.client()
    client.produce(0, records=batch(5))
    world.logstores[1].down()
    world.update(topic(leaders=(2, 2), epoch=6))
    client.produce(1, records=batch(6))
    other.produce(0, records=batch(6))
    assert sent(world, 2) == [batch(6), batch(6)]


def test_sequences_wrap() -> None:
    world, client = lose(2**31 - 1)
    client.produce(0, records=batch(0))
    assert codes(client) == [TIMED_OUT, NOT_LEADER]
    assert sent(world, 2) == []


def test_a_producer_that_is_back_later_goes_on() -> None:
    """It had its batch written through another connection meanwhile."""
    world, client = lose(5)
    client.produce(0, records=batch(9))
    world.pass_ms(HELD_BACK_MS - 1)
    client.produce(0, records=batch(9))
    assert codes(client) == [TIMED_OUT, NOT_LEADER, NOT_LEADER]
    world.pass_ms(1)
    client.produce(0, records=batch(9))
    assert sent(world, 2) == [batch(9)]


def test_what_was_under_way_behind_a_refused_batch_did_not_skip_a_sequence() -> None:
    """Replicas were too few for the first, and enough again when the second came."""
    world = World()
    client = world.client()
    client.produce(0, acks=-1, records=batch(5))
    client.produce(0, acks=-1, records=batch(6))
    world.logstore.append_result(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    world.logstore.append_result(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert codes(client) == [ErrorCode.NOT_ENOUGH_REPLICAS, NOT_LEADER]


def test_a_gap_of_the_producers_own_is_reported() -> None:
    world = World()
    client = world.client()
    client.produce(0, records=batch(6))
    world.logstore.append_result(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert codes(client) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


def test_a_producer_that_has_no_answer_yet_is_held_back_for_as_long() -> None:
    """The refusal stands in line behind an answer that takes its time."""
    world = World(topic(leaders=(1, 1)), pods=("p-0",), commit_doubt_ms=60_000)
    client = world.client()
    client.produce(1, acks=-1, records=batch(0))
    world.logstore.append_result()
    client.produce(0, acks=-1, records=batch(5))
    world.logstore.append_result(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    world.pass_ms(HELD_BACK_MS * 5)
    client.produce(0, acks=-1, records=batch(6))
    assert sent(world, 1) == []
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.SATISFIED, 0)
    assert codes(client) == [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS, NOT_LEADER]
