"""An answered produce holds no records.

Found by reading: a fence kept the request that raised it, and with it the records of all its partitions and the answer,
for as long as the connection was open. None of that counts as request memory. A client that produced to a broker that
does not lead pinned what it sent, eight requests for each partition. An answer in line behind one that takes its time
did the same.
"""

from __future__ import annotations

import gc

from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.backends.partition_appends import IN_FLIGHT_MAX, PendingAppend
from barnabas_gateway.core.requests.produce import PendingProduce
from tests.regressions.test_sent_behind_a_lost_batch import batch, codes
from tests.unit.gateway.world import World, topic


def produces_alive(world: World) -> list[PendingProduce]:
    gc.collect()
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, PendingProduce) and each.handler.responder is world.processor.responder
    ]


def appends_alive(world: World) -> list[PendingAppend]:
    gc.collect()
    alive = [each for each in gc.get_objects() if isinstance(each, PendingAppend)]
    return [each for each in alive if each.order is not None and each.order.scheduler is world.processor.appends]


def test_a_fence_holds_no_request() -> None:
    world = World(topic(leaders=(2,)), nodes=(1, 2))
    client = world.client(node_id=1)
    for producer_id in range(4):
        client.produce(0, records=batch(5, producer_id=producer_id) + bytes(1000))
    assert codes(client) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 4
    assert not appends_alive(world)
    assert not produces_alive(world)


def test_an_answer_that_stands_in_line_holds_no_records() -> None:
    world = World(topic(leaders=(1, 1, -1)), pods=("p-0",))
    client = world.client()
    client.produce(0, acks=-1)
    world.logstore.append_result()
    for _ in range(4):
        client.produce(2, acks=-1, records=batch(5) + bytes(1000))
    assert codes(client) == []
    assert len(appends_alive(world)) == 1


def test_fences_that_are_over_are_forgotten() -> None:
    """A connection to a broker that leads nothing: what it is fenced from does not gather for each partition."""
    world = World(topic(leaders=(2,) * 40), nodes=(1, 2))
    client = world.client(node_id=1)
    for index in range(40):
        client.produce(index, records=batch(5))
    connection = world.processor.connections.get(client.connection_id)
    assert connection is not None
    assert len(connection.append_orders) <= IN_FLIGHT_MAX
