"""What is told, as protobuf. An UpdateMetadata goes to every logstore, gateway and purgatory pod, and is packed once:
of ten thousand partitions that takes as long as all elections.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from barnabas.channel.packing_primitives import message_field
from barnabas.cluster.messages import ControlRequest, UpdateMetadata
from barnabas.runtime.protobuf import to_proto
from protos.controller.v1 import cluster_pb2
from protos.logstore.v1 import control_pb2

# `update_metadata` of ControlRequest, `update` of SubscribeResponse.
_CONTROL_TAG: Final = b"\x32"
_SUBSCRIPTION_TAG: Final = b"\x0a"


class Packer:
    """Remembers the update that it packed last: the same object is the same bytes."""

    def __init__(self) -> None:
        self._update: UpdateMetadata | None = None
        self._packed = b""

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
