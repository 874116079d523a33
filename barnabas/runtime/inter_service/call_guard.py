"""CallGuard: lets a gRPC server's calls through only after a check, whatever their kind.

It stands in front of every method of its server, those of libraries too (health, reflection), and before anything that
a handler does: a stream that is refused never offers a lane, and a refused caller's message is never decoded, since two
bytes of it can become dozens in memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from barnabas.cluster.access.service_permissions import may_call
from barnabas.runtime.inter_service.identity import ServiceIdentity
from barnabas.runtime.logs import get_logger

_log = get_logger("inter_service")


class CallRefused(Exception):  # noqa: N818  (an answer on its way)
    """The status and the line that the caller gets."""

    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Check(Protocol):
    """Decides about one call."""

    async def __call__(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """`method` is the whole path. Raises CallRefused."""


class CallGuard(grpc.aio.ServerInterceptor):  # type: ignore[misc, type-arg, unused-ignore]
    """For `grpc.aio.server(interceptors=…)`."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._guarded: dict[str, tuple[Any, Any]] = {}
        """By method: the handler, and the one in front of it."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = str(handler_call_details.method)
        known = self._guarded.get(method)
        if known is None or known[0] is not handler:
            known = self._guarded[method] = handler, self._in_front_of(method, handler)
        return known[1]

    def _in_front_of(self, method: str, handler: Any) -> Any:
        async def is_refused(context: grpc.aio.ServicerContext[Any, Any]) -> None:
            try:
                await self._check(method, context)
            except CallRefused as refused:
                await context.abort(refused.status, refused.message)

        async def decoded(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            """Return the one request of a call; a stream of them is decoded as the handler reads it."""
            if handler.request_streaming or handler.request_deserializer is None:
                return request
            try:
                return handler.request_deserializer(request)
            except DecodeError:
                return await context.abort(grpc.StatusCode.INTERNAL, f"the message is none of {method}")

        async def unary(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            await is_refused(context)
            request = await decoded(request, context)
            return await (handler.stream_unary or handler.unary_unary)(request, context)

        async def stream(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
            await is_refused(context)
            request = await decoded(request, context)
            answering = (handler.stream_stream or handler.unary_stream)(request, context)
            if hasattr(answering, "__aiter__"):
                async for answer in answering:
                    await context.write(answer)
            else:
                await answering

        make = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[handler.request_streaming, handler.response_streaming]
        behaviour: Any = stream if handler.response_streaming else unary
        deserializer = handler.request_deserializer if handler.request_streaming else None
        return make(behaviour, deserializer, handler.response_serializer)


class RoleCheck:
    """Lets services call what `CALLERS_BY_METHOD` grants to the roles in their certificates."""

    def __init__(self, identity: ServiceIdentity) -> None:
        self._identity = identity

    async def __call__(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        roles = self._identity.certified(context.auth_context()).roles
        if may_call(roles, method):
            return
        caller = ", ".join(sorted(role.value for role in roles)) or "without a role"
        _log.warning("call refused", method=method, peer=context.peer(), role=caller, limit_key=f"refused {caller}")
        raise CallRefused(grpc.StatusCode.PERMISSION_DENIED, f"a caller that is {caller} may not call {method}")
