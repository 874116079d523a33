"""Reference counts free what a request leaves behind: none of it is in a cycle, which only the garbage collector finds.

The collector looks at everything of a generation at once. A cycle with the elements of a long request was a turn of 150
ms, and each call of a group left a small one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from barnabas.channel.messages import CoordinateResponse, GroupAnswer
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_request, encode_body
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas_gateway.core.handlers import HANDLERS
from tests.costly.requests import Costly, costly_requests
from tests.unit.gateway.test_costly_requests import PARTITIONS, Turns, world_with_groups
from tests.unit.gateway.world import World
from tests.unit.house.request_path import Cluster

VERSION = 9


@contextmanager
def no_garbage() -> Iterator[None]:
    """Fail if what runs inside leaves objects that only the collector can free."""
    # What is there already is not looked at: in a process that has run thousands of tests, that takes half a second.
    gc.freeze()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = sorted({type(each).__name__ for each in gc.garbage})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    assert left == []


def take_turn(world: World, act: Callable[[], None]) -> None:
    act()
    world.carry_out(world.processor.take_outputs())


def assert_no_garbage(costly: Costly) -> None:
    world = world_with_groups()
    client, turns = world.client(), Turns(world)
    frame = client.frame(costly.request, costly.api_key, costly.version)
    with no_garbage():
        take_turn(world, lambda: world.processor.bytes_received(client.connection_id, frame, world.now_ms))
        while not (client.answers or client.is_closed) or world.processor.responder.steps.has_work():
            take_turn(world, turns.answer_one)
            if not world.processor.responder.steps.has_work():
                world.now_ms += 1_000
        client.answers.clear()


@pytest.mark.parametrize("api_key", HANDLERS, ids=lambda number: ApiKey(number).name)
def test_no_api_key_leaves_a_cycle(api_key: int) -> None:
    for costly in costly_requests(3, "t", api_key):
        assert_no_garbage(costly)


def commit_all(world: World) -> None:
    """Answer the calls of the coordinator as it does that has committed everything."""
    waiting = world.logstores[1].group_calls
    while waiting:
        call = waiting.pop(0)
        asked = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        assert isinstance(asked, OffsetCommitRequest)
        topics = [
            OffsetCommitResponseTopic(
                each.name, partitions=[OffsetCommitResponsePartition(one.partition_index) for one in each.partitions]
            )
            for each in asked.topics
        ]
        body = encode_body(OffsetCommitResponse(topics=topics), call.api_version)
        answer = GroupAnswer(call.request_id, body=body)
        world.processor.coordinate_response(1, CoordinateResponse(answers=[answer]), world.now_ms)


@pytest.mark.parametrize("partitions", [1, PARTITIONS], ids=["forwarded", "in several calls"])
def test_a_commit_leaves_no_cycle(partitions: int) -> None:
    world = world_with_groups()
    client = world.client()
    committed = [OffsetCommitRequestPartition(each, 1) for each in range(partitions)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=committed)])
    frame = client.frame(request, ApiKey.OFFSET_COMMIT, VERSION)
    del request, committed
    with no_garbage():
        take_turn(world, lambda: world.processor.bytes_received(client.connection_id, frame, world.now_ms))
        while not client.answers or world.processor.responder.steps.has_work():
            take_turn(world, lambda: commit_all(world))
            take_turn(world, lambda: world.processor.expire(world.now_ms))


@pytest.mark.parametrize("ask", [Cluster.produce, Cluster.fetch], ids=["produce", "fetch"])
def test_no_record_leaves_a_cycle(ask: Callable[[Cluster], object]) -> None:
    """Neither in the gateway nor in the logstore."""
    cluster = Cluster()
    cluster.produce()
    ask(cluster)
    with no_garbage():
        ask(cluster)
