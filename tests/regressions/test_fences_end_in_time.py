"""A fence is as long as its producer may not know of the failure: counted from when the answer left.

Found by reading: it was counted from when the next batch was looked at.

- A producer that came back to a leader after an hour had its next four batches refused.
- With the answer in line behind a slow one the time ran before the answer had left: what came behind was sent on.
- It ended for all requests when the failed batch came again, also for those that had been sent before it.
"""

from __future__ import annotations

from barnabas.channel.messages import Outcome
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.backends.partition_appends import HELD_BACK_MS
from tests.regressions.test_sent_behind_a_lost_batch import batch, codes, sent
from tests.unit.gateway.world import World, topic

NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_is_back_takes_the_producers_next_batch() -> None:
    world = World(topic(leaders=(2,)), nodes=(1, 2))
    client = world.client(node_id=1)
    client.produce(0, records=batch(5))
    assert codes(client) == [NOT_LEADER]
    world.update(topic(leaders=(1,), epoch=6))
    world.pass_ms(HELD_BACK_MS)
    client.produce(0, records=batch(60))
    assert sent(world, 1) == [batch(60)]


def test_a_fence_holds_until_its_answer_has_left() -> None:
    world = World(topic(leaders=(1, 1)), pods=("p-0",), commit_doubt_ms=60_000)
    client = world.client()
    client.produce(1, acks=-1, records=batch(0))
    world.logstore.append_result()
    client.produce(0, acks=-1, records=batch(5))
    world.logstore.append_result(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    client.produce(0, acks=-1, records=batch(6))
    world.pass_ms(HELD_BACK_MS)
    client.produce(0, acks=-1, records=batch(7))
    assert sent(world, 1) == []
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.SATISFIED, 0)
    assert codes(client) == [NONE, ErrorCode.NOT_ENOUGH_REPLICAS, NOT_LEADER, NOT_LEADER]
    world.pass_ms(HELD_BACK_MS - 1)
    client.produce(0, acks=-1, records=batch(6))
    assert sent(world, 1) == []


def test_a_batch_that_comes_again_leaves_those_sent_before_it_fenced() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1, records=batch(5))
    client.produce(0, acks=-1, records=batch(6))
    world.logstore.append_result(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    client.produce(0, acks=-1, records=batch(5))
    world.logstore.append_result(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert codes(client) == [ErrorCode.NOT_ENOUGH_REPLICAS, NOT_LEADER]
    client.produce(0, acks=-1, records=batch(6))
    assert sent(world, 1) == [batch(5), batch(6)]
