"""TraceParent: adds W3C's header to unary calls made for a traced request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc.aio

from barnabas.runtime.tracing.traces import CURRENT, parse_traceparent, traceparent

_KEY = "traceparent"


class TraceParent(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc, type-arg, unused-ignore]
    """Adds nothing to the calls of a task that works for no traced request (`traces.CURRENT`)."""

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Any],
        details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        trace = CURRENT.get()
        if trace:
            metadata = grpc.aio.Metadata(*(details.metadata or ()))
            metadata.add(_KEY, traceparent(trace))
            details = grpc.aio.ClientCallDetails(
                details.method, details.timeout, metadata, details.credentials, details.wait_for_ready
            )
        return await continuation(details, request)


def trace_of(context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
    """Return trace id and span id of the request that a call was made for; empty if it is not traced."""
    for key, value in context.invocation_metadata() or ():
        if key == _KEY:
            return parse_traceparent(value if isinstance(value, str) else value.decode("ascii", "replace"))
    return b""
