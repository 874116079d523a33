"""What is packed once is the very message that protobuf would make of it, every time."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.cluster.messages import (
    Broker,
    ControlRequest,
    LeaderAndIsr,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.runtime.protobuf import from_proto
from barnabas_controller.shell.packing import Packer, is_large
from barnabas_protos.controller.v1 import membership_pb2
from barnabas_protos.logstore.v1 import control_pb2


def an_update(revision: int) -> UpdateMetadata:
    return UpdateMetadata(
        revision=revision,
        full=False,
        cluster_id="cluster",
        controller_epoch=3,
        brokers=[Broker(1, "host:1", 42, "")],
        purgatories=[],
        topics=[TopicMetadata("orders", bytes(range(16)), {"retention.ms": "1"}, [])],
    )


def test_an_update_is_what_every_stream_carries() -> None:
    packer = Packer()
    for update in (an_update(7), an_update(8)):
        for sequence in (1, 2):
            request = ControlRequest(sequence=sequence, controller_epoch=3, broker_epoch=42, update_metadata=update)
            packed = packer.control_request(request)
            assert from_proto(ControlRequest, control_pb2.ControlRequest.FromString(packed)) == request
            response = membership_pb2.SubscribeResponse.FromString(packer.subscribe_response(update))
            assert from_proto(UpdateMetadata, response.update) == update


def test_any_other_request_is_packed_as_it_is() -> None:
    request = ControlRequest(sequence=5, controller_epoch=3, broker_epoch=42, stop_replica=StopReplica([]))
    packed = Packer().control_request(request)
    assert from_proto(ControlRequest, control_pb2.ControlRequest.FromString(packed)) == request


def large_topic() -> TopicMetadata:
    partitions = [PartitionMetadata(number, 1, 2, 3, (1, 2), (1,)) for number in range(1_200)]
    return TopicMetadata("large", bytes(16), {}, partitions)


def a_request(**body: LeaderAndIsr | StopReplica | UpdateMetadata) -> ControlRequest:
    return ControlRequest(sequence=5, controller_epoch=3, broker_epoch=42, **body)  # type: ignore[arg-type]


LARGE = {
    "leader_and_isr": LeaderAndIsr(full=False, topics=[large_topic()]),
    "stop_replica": StopReplica([StopReplicaPartition("large", bytes(16), each, 0, True) for each in range(1_200)]),
    "update_metadata": UpdateMetadata(1, True, "cluster", 3, [], [], [large_topic()]),
}


@pytest.mark.parametrize("name", LARGE)
async def test_a_large_request_is_the_same_bytes_and_takes_several_turns(name: str) -> None:
    request = a_request(**{name: LARGE[name]})
    packer, turns = Packer(), 0
    assert is_large(request)
    assert not is_large(a_request(stop_replica=StopReplica([])))
    packing = asyncio.ensure_future(packer.large_control_request(request))
    while not packing.done():
        await asyncio.sleep(0)
        turns += 1
    assert packing.result() == packer.control_request(request)
    assert turns > 2


async def test_a_large_update_is_packed_once_for_all_streams_and_a_stream_that_ends_does_not_stop_it() -> None:
    packer = Packer()
    update = LARGE["update_metadata"]
    assert isinstance(update, UpdateMetadata)
    ending = asyncio.ensure_future(packer.large_subscribe_response(update))
    others = [asyncio.ensure_future(packer.large_subscribe_response(update)) for _ in range(2)]
    await asyncio.sleep(0)
    ending.cancel()
    first, second = await asyncio.gather(*others)
    assert first == second == packer.subscribe_response(update)
    with pytest.raises(asyncio.CancelledError):
        await ending
