"""One DescribeProducers of a partition with 20,000 producers was a turn of 25 ms in the gateway and in the logstore.

A logstore's answer was made into a response in one turn, and before that converted from and to protobuf in one.
"""

from __future__ import annotations

from itertools import pairwise

from barnabas.cluster.administration import ActiveProducer, DescribeProducersResponse, PartitionProducers
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from barnabas_gateway.core.connections.steps import STEPS_PER_TURN
from tests.unit.gateway.world import World, topic

PRODUCERS = 20_000


def test_many_producers_are_put_into_the_response_over_many_turns() -> None:
    world = World()
    client = world.client()
    client.ask(DescribeProducersRequest([TopicRequest("t", [0])]), ApiKey.DESCRIBE_PRODUCERS, 0)
    (call,) = world.logstore.calls
    producers = [ActiveProducer(each, 1, 9, 1234, -1, 55) for each in range(PRODUCERS)]
    answer = DescribeProducersResponse([PartitionProducers(0, producers)])
    processor = world.processor
    left = [len(producers)]
    processor.logstore_answered(call.call_id, answer, world.now_ms)
    while not client.answers:
        left.append(len(producers))
        world.carry_out(processor.take_outputs())
    assert not producers, "each is dropped when it is in the response"
    assert max(before - after for before, after in pairwise(left)) <= STEPS_PER_TURN
    (described,) = client.answers[0].topics[0].partitions
    assert described.active_producers == [ProducerState(each, 1, 9, 1234, -1, 55) for each in range(PRODUCERS)]


def test_one_call_asks_for_few_partitions() -> None:
    world = World(topic("t", leaders=(1,) * 25))
    client = world.client()
    client.ask(DescribeProducersRequest([TopicRequest("t", list(range(25)))]), ApiKey.DESCRIBE_PRODUCERS, 0)
    asked = []
    while not client.answers:
        (request,) = [call.request for call in world.logstore.calls]
        asked.append(len(request.partitions))
        world.logstore.answer_call(DescribeProducersResponse([PartitionProducers(0, []) for _ in request.partitions]))
    assert asked == [10, 10, 5]
