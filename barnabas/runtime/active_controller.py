"""The channel to the controller that is active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import Message

from barnabas.cluster.keys import Role
from barnabas.runtime.inter_service import identity
from barnabas.runtime.rpc import create_channel
from barnabas.runtime.tracing.trace_parent import TraceParent
from barnabas_protos.controller.v1 import membership_pb2_grpc as rpc

if TYPE_CHECKING:
    from barnabas_protos.controller.v1.membership_pb2_grpc import MembershipAsyncStub


class ActiveController:
    """The channel to one incarnation of an active controller; closed when it is retired and not used any more.

    (Closing a channel cancels its calls, and a task that awaits one would take that for its own cancellation.)
    """

    __slots__ = ("_retired", "_users", "address", "channel", "create_revision", "generation", "stub")

    def __init__(self, address: str, create_revision: int) -> None:
        self.address = address
        self.create_revision = create_revision
        self.generation = identity.generation()
        self.channel = create_channel(address, Role.CONTROLLER, interceptors=(TraceParent(),))
        self.stub: MembershipAsyncStub = rpc.MembershipStub(self.channel)
        self._users = 0
        self._retired = False

    async def __aenter__(self) -> ActiveController:
        self._users += 1
        return self

    async def __aexit__(self, *failure: object) -> None:
        self._users -= 1
        if self._retired and self._users == 0:
            await self.channel.close(None)

    async def retire(self) -> None:
        async with self:
            self._retired = True

    async def call(self, method: str, message: Message, timeout_s: float) -> Message:
        """Call a method of the service by its name. Raises grpc.aio.AioRpcError."""
        answer: Message = await getattr(self.stub, method)(message, timeout=timeout_s)
        return answer
