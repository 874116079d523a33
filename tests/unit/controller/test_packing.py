"""What is packed once is the very message that protobuf would make of it, every time."""

from __future__ import annotations

from barnabas.cluster.messages import Broker, ControlRequest, StopReplica, TopicMetadata, UpdateMetadata
from barnabas.runtime.protobuf import from_proto
from protos.controller.v1 import membership_pb2
from protos.logstore.v1 import control_pb2
from services.controller.shell.packing import Packer


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
