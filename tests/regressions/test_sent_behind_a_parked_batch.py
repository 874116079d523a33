"""Nothing of a producer and partition goes to another leader while something of it is undecided at the old one.

Found with real clients whose leaders moved: R1 was appended and parked at leader A; the processor learned that B leads
before R1 was fenced; R2 of the same producer went to B, which answered OUT_OF_ORDER_SEQUENCE_NUMBER (librdkafka began a
new epoch for all partitions, and sent again what was in the log), or wrote it where it had never heard of the producer
(R1 was acknowledged by R2's success, and in no log).
"""

from __future__ import annotations

import pytest

from barnabas.channel.messages import Outcome
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.backends.partition_appends import HELD_BACK_MS
from tests.regressions.test_sent_behind_a_lost_batch import batch, codes, sent
from tests.unit.gateway.world import Client, World, topic

NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
LED_BY_2 = topic(leaders=(2,), epoch=6)


def park(*, node_id: int = -1, sequence: int = 5) -> tuple[World, Client]:
    """A batch that is parked at logstore 1, which leads no more; 2 does."""
    world = World(nodes=(1, 2), pods=("p-0",))
    client = world.client(node_id)
    client.produce(0, acks=-1, records=batch(sequence))
    world.logstores[1].append_result()
    world.update(LED_BY_2)
    return world, client


def fence(world: World) -> None:
    world.pod.complete(world.pod.produces[-1].entry_id, Outcome.FENCED, NOT_LEADER)


def test_the_next_batch_waits_until_the_parked_one_is_decided() -> None:
    world, client = park()
    client.produce(0, acks=-1, records=batch(6))
    assert sent(world, 2) == []
    fence(world)
    assert sent(world, 2) == []
    world.logstores[2].state_answer(high_watermark=8, leader_epoch=6, holds_append=True)
    assert codes(client) == [NONE]
    assert sent(world, 2) == [batch(6)]


def test_what_comes_behind_is_not_written_where_the_parked_one_is_not() -> None:
    world, client = park()
    client.produce(0, acks=-1, records=batch(6))
    fence(world)
    world.logstores[2].state_answer(high_watermark=7, leader_epoch=6)
    assert codes(client) == [NOT_LEADER, NOT_LEADER]
    assert sent(world, 2) == []


def test_another_epoch_of_the_same_leader_is_waited_for_as_well() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1, records=batch(5))
    world.logstore.append_result()
    world.update(topic(leaders=(1,), epoch=6))
    client.produce(0, acks=-1, records=batch(6))
    assert sent(world, 1) == []
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.SATISFIED, NONE)
    assert codes(client) == [NONE]
    assert [append.leader_epoch for append in world.logstore.appends] == [6]


def test_a_producers_first_batch_is_decided_before_the_next_is_sent() -> None:
    """A leader that never heard of the producer would write the second without the first."""
    world = World(pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1, records=batch(0))
    client.produce(0, acks=-1, records=batch(1))
    assert sent(world, 1) == [batch(0)]
    world.logstore.append_result()
    assert sent(world, 1) == []
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.SATISFIED, NONE)
    client.produce(0, acks=-1, records=batch(2))
    assert sent(world, 1) == [batch(1), batch(2)]


def test_a_parked_batch_follows_its_partition_from_leader_to_leader() -> None:
    """Each is asked for the epoch that the batch was written under, not for that of the leader before."""
    world, client = park()
    fence(world)
    query = world.logstores[2].state_queries[0]
    assert (query.leader_epoch, query.required_offset) == (5, 8)
    world.logstores[2].state_answer(high_watermark=7, leader_epoch=6, holds_append=True)
    condition = world.pod.produces[-1].conditions[0]
    assert (condition.leader_id, condition.leader_epoch, condition.required_offset) == (2, 6, 8)
    world.update(topic(leaders=(1,), epoch=7))
    fence(world)
    query = world.logstores[1].state_queries[0]
    assert (query.leader_epoch, query.required_offset) == (5, 8)
    world.logstores[1].state_answer(high_watermark=8, leader_epoch=7, holds_append=True)
    assert codes(client) == [NONE]


def test_the_watermark_of_a_leader_that_lacks_the_batch_is_no_success() -> None:
    world, client = park()
    fence(world)
    world.logstores[2].state_answer(high_watermark=100, leader_epoch=6, holds_append=False)
    assert codes(client) == [NOT_LEADER]


def test_a_leader_that_has_led_on_without_a_break_commits_what_it_appended() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1, records=batch(5))
    world.logstore.append_result()
    world.update(topic(leaders=(1,), epoch=7))
    world.pod.down()
    world.logstore.state_answer(high_watermark=8, leader_epoch=7, earlier_epochs_led=2)
    assert codes(client) == [NONE]


def test_a_batch_without_a_next_leader_may_have_been_written() -> None:
    world, client = park()
    world.update(topic(leaders=(-1,), epoch=7))
    fence(world)
    assert codes(client) == []
    world.pass_ms(6_000)
    assert codes(client) == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_partition_without_a_leader_is_given_up_alone() -> None:
    """The others of its request wait on for their commit."""
    world = World(topic(leaders=(1, 1)), nodes=(1, 2), pods=("p-0",))
    client = world.client()
    client.produce(0, 1, acks=-1, records=batch(5))
    world.logstores[1].append_result()
    world.logstores[1].append_result()
    world.update(topic(leaders=(-1, 1), epoch=6))
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.FENCED, NOT_LEADER, NOT_LEADER)
    for _ in range(150):
        if world.logstores[1].state_queries:
            world.logstores[1].state_answer(high_watermark=7, leader_epoch=6, earlier_epochs_led=1)
        world.pass_ms(50)
    assert codes(client) == []
    world.pod.complete(world.pod.produces[-1].entry_id, Outcome.SATISFIED, NONE)
    assert codes(client) == [ErrorCode.REQUEST_TIMED_OUT, NONE]


def test_a_brokers_own_port_writes_to_that_broker_alone() -> None:
    """As in Kafka: the client has chosen this connection for its leader, and has another one to the next."""
    world, client = park(node_id=1)
    client.produce(0, acks=-1, records=batch(6))
    assert sent(world, 2) == []
    fence(world)
    world.logstores[2].state_answer(high_watermark=8, leader_epoch=6, holds_append=True)
    assert codes(client) == [NONE, NOT_LEADER]
    assert sent(world, 2) == []
    other = world.client(node_id=2)
    other.produce(0, acks=-1, records=batch(6))
    assert sent(world, 2) == [batch(6)]


def test_what_was_sent_in_knowledge_of_the_failure_is_not_held_back() -> None:
    """An idempotent producer has five requests in flight at most: the fifth behind a failed one knows of it."""
    world = World(nodes=(1, 2))
    client = world.client()
    client.produce(0, records=batch(5))
    world.logstores[1].down()
    world.update(LED_BY_2)
    for _ in range(4):
        client.produce(0, records=batch(9))
    assert sent(world, 2) == []
    client.produce(0, records=batch(9))
    assert sent(world, 2) == [batch(9)]


def test_what_a_fence_has_refused_has_to_come_again_too() -> None:
    """Found by the simulation's librdkafka: 38 was refused by a fence, and 39, the fifth request behind the failed one,
    went to the leader without it.
    """
    world = World(topic(leaders=(1, 2)), nodes=(1, 2))
    client = world.client()
    client.produce(0, records=batch(34))
    world.logstores[1].down()
    world.update(topic(leaders=(2, 2), epoch=6))
    for _ in range(3):
        client.produce(1, acks=0)
    client.produce(0, records=batch(38))
    client.produce(0, records=batch(39))
    world.logstores[2].appends.clear()
    client.produce(0, records=batch(38))
    client.produce(0, records=batch(39))
    assert sent(world, 2) == [batch(38), batch(39)]


@pytest.mark.parametrize("wait_ms", [HELD_BACK_MS - 1, HELD_BACK_MS])
def test_two_producers_on_one_connection_are_fenced_apart(wait_ms: int) -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    client.produce(0, records=batch(5, producer_id=1))
    client.produce(0, records=batch(5, producer_id=2))
    world.logstores[1].down()
    world.update(LED_BY_2)
    client.produce(0, records=batch(6, producer_id=1))
    client.produce(0, records=batch(5, producer_id=2))
    assert sent(world, 2) == [batch(5, producer_id=2)]
    world.pass_ms(wait_ms)
    client.produce(0, records=batch(6, producer_id=1))
    assert (batch(6, producer_id=1) in sent(world, 2)) is (wait_ms == HELD_BACK_MS)


def test_a_batch_whose_place_is_forgotten_is_a_success_without_an_offset() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1, records=batch(5))
    world.logstore.append_result(base_offset=-1)
    assert codes(client) == []
    world.pod.complete(world.pod.produces[0].entry_id, Outcome.SATISFIED, NONE)
    assert codes(client) == [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    client.produce(0, acks=-1, records=batch(20))
    assert sent(world, 1) == [batch(20)]


def test_a_leader_that_leads_on_is_waited_for_under_its_present_epoch() -> None:
    """A purgatory of the earlier release fences the older one at once, and the gateway asked without a pause."""
    world = World(nodes=(1, 2), pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1, records=batch(5))
    world.logstore.append_result()
    world.update(topic(leaders=(1,), epoch=6))
    fence(world)
    world.logstore.state_answer(high_watermark=7, leader_epoch=6, earlier_epochs_led=1)
    condition = world.pod.produces[-1].conditions[0]
    assert (condition.leader_id, condition.leader_epoch) == (1, 6)
    world.update(topic(leaders=(2,), epoch=7))
    fence(world)
    assert world.logstores[2].state_queries[0].leader_epoch == 5
    world.logstores[2].state_answer(high_watermark=8, leader_epoch=7, holds_append=True)
    assert codes(client) == [NONE]


def test_a_stream_that_came_back_ends_the_wait_for_it() -> None:
    """What waits for the parked batch is not given up for a stream that was down before."""
    world, client = park()
    world.logstores[2].down()
    client.produce(0, acks=-1, records=batch(6))
    world.pass_ms(4_000)
    world.logstores[2].up()
    world.pass_ms(2_000)
    assert codes(client) == []
    fence(world)
    world.logstores[2].state_answer(high_watermark=8, leader_epoch=6, holds_append=True)
    assert codes(client) == [NONE]
    assert sent(world, 2) == [batch(6)]
