"""Pack messages into protobuf. An UpdateMetadata goes to every logstore, gateway and purgatory pod, and is packed once:
for ten thousand partitions that takes as long as all elections.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from barnabas.channel.packing_primitives import message_field
from barnabas.cluster.messages import ControlRequest, LeaderAndIsr, UpdateMetadata
from barnabas.runtime.large_messages import LARGE_ELEMENTS, over_turns
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.protobuf import to_proto, to_proto_in_steps
from barnabas_controller.shell.containment import PACKING
from barnabas_protos.controller.v1 import cluster_pb2
from barnabas_protos.logstore.v1 import control_pb2

# `update_metadata` of ControlRequest, `update` of SubscribeResponse.
_CONTROL_TAG: Final = b"\x32"
_SUBSCRIPTION_TAG: Final = b"\x0a"
_NO_TOPICS: Final = LeaderAndIsr(full=False, topics=[])


class Packer:
    """Caches the update that it packed last: the same object gives the same bytes."""

    def __init__(self) -> None:
        self._update: UpdateMetadata | None = None
        self._packed = b""
        self._tasks = BackgroundTasks(PACKING)
        self._packing: tuple[UpdateMetadata, asyncio.Task[bytes]] | None = None
        """The large update that was packed last, or is being packed."""

    async def large_control_request(self, request: ControlRequest) -> bytes:
        """The message of the control channel, packed over several turns of the event loop."""
        update = request.update_metadata
        if update is None:
            return (await over_turns(to_proto_in_steps(request, control_pb2.ControlRequest))).SerializeToString()
        head = to_proto(replace(request, update_metadata=None), control_pb2.ControlRequest).SerializeToString()
        return head + message_field(_CONTROL_TAG, await self._pack_large(update))

    async def large_subscribe_response(self, update: UpdateMetadata) -> bytes:
        """The message of a subscription, packed over several turns of the event loop."""
        return message_field(_SUBSCRIPTION_TAG, await self._pack_large(update))

    async def _pack_large(self, update: UpdateMetadata) -> bytes:
        if self._packing is None or self._packing[0] is not update:
            self._packing = update, self._tasks.start(_packed_over_turns(update))
        # A stream that ends must not cancel the packing for the others.
        return await asyncio.shield(self._packing[1])

    def control_request(self, request: ControlRequest) -> bytes:
        """The message of the control channel."""
        update = request.update_metadata
        if update is None:
            return to_proto(request, control_pb2.ControlRequest).SerializeToString()
        head = to_proto(replace(request, update_metadata=None), control_pb2.ControlRequest).SerializeToString()
        return head + message_field(_CONTROL_TAG, self._pack(update))

    def subscribe_response(self, update: UpdateMetadata) -> bytes:
        """The message of a subscription."""
        return message_field(_SUBSCRIPTION_TAG, self._pack(update))

    def _pack(self, update: UpdateMetadata) -> bytes:
        if update is not self._update:
            self._packed = to_proto(update, cluster_pb2.UpdateMetadata).SerializeToString()
            self._update = update
        return self._packed


def is_large(message: ControlRequest | UpdateMetadata) -> bool:
    """Whether it has so many partitions that it should be packed over several turns."""
    if isinstance(message, ControlRequest):
        if message.stop_replica is not None:
            return len(message.stop_replica.partitions) >= LARGE_ELEMENTS
        topics = (message.leader_and_isr or message.update_metadata or _NO_TOPICS).topics
    else:
        topics = message.topics
    return len(topics) + sum([len(topic.partitions) for topic in topics]) >= LARGE_ELEMENTS


async def _packed_over_turns(update: UpdateMetadata) -> bytes:
    return (await over_turns(to_proto_in_steps(update, cluster_pb2.UpdateMetadata))).SerializeToString()
