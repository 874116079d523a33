"""Unary calls to the logstores for Kafka's administrative APIs, beside the streams that carry records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import Message

from barnabas.cluster import administration as contract
from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from barnabas.cluster.keys import Role
from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.inter_service import identity
from barnabas.runtime.large_messages import over_turns
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.protobuf import from_proto_in_steps, to_proto
from barnabas.runtime.rpc import create_channel
from barnabas_gateway.core.model.outputs import LogstoreCall
from barnabas_gateway.shell.containment import LOGSTORE_CALL
from barnabas_protos.logstore.v1 import administration_pb2 as pb

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["Administration"]

_log = get_logger("gateway.calls")

Answered: TypeAlias = Callable[[int, AdministrationResponse | None], None]
"""Called with call id and the answer, or None if there is none."""


class LogstoreCalls:
    """The calls in flight to one incarnation of a logstore, over their own connection, opened with the first."""

    def __init__(self, node_id: int, address: str, answered: Answered) -> None:
        self._node_id = node_id
        self._address = address
        self._answered = answered
        self._channels: list[grpc.aio.Channel] = []
        """The last one is in use; those before show a certificate that was replaced since."""
        self._generation = 0
        self._background = BackgroundTasks(LOGSTORE_CALL)
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def send(self, call: LogstoreCall) -> None:
        task = self._background.start(self._call(call))
        self._tasks[call.call_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(call.call_id, None))

    def cancel(self, call_id: int) -> None:
        """The caller does not wait any more: no answer is reported."""
        task = self._tasks.pop(call_id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """End all calls, unanswered."""
        await self._background.stop()
        for channel in self._channels:
            await channel.close(None)

    async def _call(self, call: LogstoreCall) -> None:
        answer: AdministrationResponse | None = None
        try:
            answer = await self._ask(call.request, call.timeout_ms)
        except grpc.aio.AioRpcError as error:
            reason = f"{error.code().name}: {error.details()}"
            request = type(call.request).__name__
            _log.warning("a call was not answered", node_id=self._node_id, request=request, reason=reason)
        except Exception as error:
            CONTAINED.contain(LOGSTORE_CALL, error, {"node_id": self._node_id, "request": type(call.request).__name__})
        self._answered(call.call_id, answer)

    async def _ask(self, request: AdministrationRequest, timeout_ms: int) -> AdministrationResponse:
        """Messages and dataclasses have the same names (a test checks it), and requests that of their method."""
        generation = identity.generation()
        if not self._channels or generation != self._generation:
            self._channels.append(create_channel(self._address, Role.LOGSTORE))
            self._generation = generation
        request_name = type(request).__name__
        method = _SERVICE.methods_by_name[request_name.removesuffix("Request")]
        response_message: type[Message] = getattr(pb, method.output_type.name)
        response_type: type[AdministrationResponse] = getattr(contract, method.output_type.name)
        ask: grpc.aio.UnaryUnaryMultiCallable[Message, Message] = self._channels[-1].unary_unary(
            f"/{_SERVICE.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response_message.FromString,
        )
        message = to_proto(request, getattr(pb, request_name))
        answer = await ask(message, timeout=timeout_ms / 1000)
        return await over_turns(from_proto_in_steps(response_type, answer))
