"""The Administration service on the data listener: unary calls, each passed to the core and answered by it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import Message

from barnabas.cluster import administration as contract
from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from barnabas.containment import Uncontained
from barnabas.runtime.large_messages import over_turns
from barnabas.runtime.protobuf import from_proto, to_proto_in_steps
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.shell.driver import LogstoreDriver
from barnabas_protos.logstore.v1 import administration_pb2 as pb

ADMINISTRATION_SERVICE: Final[str] = pb.DESCRIPTOR.services_by_name["Administration"].full_name

_Context = grpc.aio.ServicerContext[Message, Message]


class AdministrationListener:
    """Calls by their own ids. Until `serve` they are refused: the logs are being loaded."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._loop: LogstoreDriver | None = None
        self._calls: dict[int, asyncio.Future[AdministrationResponse | None]] = {}
        self._calls_taken = 0
        methods = pb.DESCRIPTOR.services_by_name["Administration"].methods
        handlers = {method.name: self._handler(method.input_type.name, method.output_type.name) for method in methods}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(ADMINISTRATION_SERVICE, handlers),))

    def serve(self, loop: LogstoreDriver) -> None:
        """Accept calls from now on."""
        self._loop = loop

    def send(self, outputs: Outputs) -> None:
        """Send one turn's answers; a caller that has gone gets none."""
        for call_id, response in outputs.administration:
            answered = self._calls.get(call_id)
            if answered is not None and not answered.done():
                answered.set_result(response)
        for call_id in outputs.administration_failures:
            failed = self._calls.get(call_id)
            if failed is not None and not failed.done():
                failed.set_result(None)

    def _handler(self, request_name: str, response_name: str) -> grpc.RpcMethodHandler[Any, Any]:
        """Messages and dataclasses have the same names (a test checks it)."""
        request_message: type[Message] = getattr(pb, request_name)
        response_message: type[Message] = getattr(pb, response_name)
        request_type: type[AdministrationRequest] = getattr(contract, request_name)

        async def serve(request: Message, context: _Context) -> Message:
            response = await self._call(from_proto(request_type, request), context)
            return await over_turns(to_proto_in_steps(response, response_message))

        return grpc.unary_unary_rpc_method_handler(
            serve,
            request_deserializer=request_message.FromString,
            response_serializer=response_message.SerializeToString,
        )

    async def _call(self, request: AdministrationRequest, context: _Context) -> AdministrationResponse:
        loop = self._loop
        if loop is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the logs are being loaded")
        self._calls_taken += 1
        call_id = self._calls_taken
        try:
            is_accepted = loop.core.on_administration(call_id, request)
        except (Exception, Uncontained) as error:
            loop.fail(error)
            raise
        if not is_accepted:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "refused: stopping, or too many calls")
        answered: asyncio.Future[AdministrationResponse | None] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = answered
        loop.wake()
        try:
            response = await answered
        finally:
            del self._calls[call_id]
            try:
                loop.core.on_administration_cancelled(call_id)
            except (Exception, Uncontained) as error:
                loop.fail(error)
        if response is None:
            await context.abort(grpc.StatusCode.INTERNAL, "an internal error, see the log of the logstore")
        return response
