"""What a subscription to the active controller brings: updates of the metadata, and calls of operators."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio

from barnabas.cluster.access.operator_calls import TEXT_LENGTH_MAX, OperatorCall
from barnabas.cluster.keys import Keys
from barnabas.cluster.messages import UpdateMetadata
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.large_messages import LARGE_BYTES
from barnabas.runtime.membership import MembershipClient
from barnabas.runtime.protobuf import to_proto
from barnabas.runtime.streams import ServerStream, register_stream
from barnabas_protos.controller.v1 import membership_pb2 as pb

SERVICE = "barnabas.controller.v1.Membership"


class Controller:
    """Answers the first message of a subscription with `responses`."""

    def __init__(self, stream: ServerStream, responses: list[pb.SubscribeResponse]) -> None:
        self._stream = stream
        self._responses = responses

    def on_message(self, data: bytes) -> None:
        responses, self._responses = self._responses, []
        for response in responses:
            self._stream.send(response.SerializeToString())

    def on_closed(self, reason: str) -> None:
        return

    def pack_heartbeat(self, count: int) -> bytes:
        return pb.SubscribeResponse(heartbeat=count).SerializeToString()


async def test_many_calls_of_operators_are_no_update() -> None:
    """A message of more than 16 KiB was taken for an update, which was empty, and the calls were lost."""
    calls = [OperatorCall(1, "controller-1", "a" * TEXT_LENGTH_MAX, "peer", str(each), "denied") for each in range(100)]
    many = pb.SubscribeResponse(operator_calls=[to_proto(each, pb.OperatorCall) for each in calls])
    assert many.ByteSize() > LARGE_BYTES
    update = pb.SubscribeResponse()
    update.update.revision = 7
    server = grpc.aio.server()
    register_stream(server, SERVICE, "Subscribe", lambda stream: Controller(stream, [many, update]))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    etcd: Any = None
    client = MembershipClient(etcd, Keys("/barnabas/"), monotonic_ms)
    taken: list[OperatorCall] = []
    updated: asyncio.Future[UpdateMetadata] = asyncio.get_running_loop().create_future()
    hello = pb.SubscribeRequest(role="gateway", pod_id="gateway", takes_operator_calls=True)
    link = client._listen(f"127.0.0.1:{port}", hello, lambda update, _: updated.set_result(update), taken.extend)
    link.start()
    try:
        assert (await asyncio.wait_for(updated, 10)).revision == 7
    finally:
        await link.close()
        await server.stop(0)
    assert taken == calls
