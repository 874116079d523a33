"""Where a processor catches unexpected exceptions, and what each of them ends.

One in a request ends that request: it is answered with UNKNOWN_SERVER_ERROR, at its place in the order, where its
response has an error of its own; else its connection closes, which its client takes for a lost one. What it waits for
is given up as if its client had gone. One in what a connection has apart from its requests closes that connection. What
is not caught here ends the processor, and the acceptor starts another one: credit, memory and the image are shared by
all.
"""

from __future__ import annotations

from typing import Final, Protocol

from barnabas.containment import CONTAINING, Place, Scope
from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.model.request_context import RequestContext

REQUEST: Final = Place(
    "gateway.request",
    Scope.REQUEST,
    "a request, from its start to its response; if that has no place for an error, its connection closes",
)
CONNECTION: Final = Place(
    "gateway.connection", Scope.STREAM, "a connection's bytes, its authentication, its times and its order of appends"
)
MESSAGE: Final = Place(
    "gateway.message", Scope.STREAM, "a message of a logstore or of purgatory, apart from the requests that it answers"
)
AUDIT: Final = Place("gateway.audit", Scope.DUTY, "records of the audit, which are dropped or sent again")
QUOTAS: Final = Place("gateway.quotas", Scope.DUTY, "the agreement with others about the shares of quotas")
VERIFICATION: Final = Place(
    "gateway.verification",
    Scope.REQUEST,
    "the question whether a transaction is open, and what waits for it",
)

PLACES: Final = (REQUEST, CONNECTION, MESSAGE, AUDIT, QUOTAS, VERIFICATION)


class Failing(Protocol):
    def failed(self, error: Exception) -> None: ...


def end_by(failing: Failing, error: Exception) -> None:
    """End what has met an unexpected exception. Raises Uncontained if that fails: what waits for its end would wait
    for ever.
    """
    with CONTAINING:
        failing.failed(error)


def describe_request(context: RequestContext, header: RequestHeader | None, trace_id: str) -> dict[str, str | int]:
    """Return what identifies a request in a report or a line of the log; `header`: if there is a request."""
    described: dict[str, str | int] = {
        "connection_id": context.connection_id,
        "listener": context.listener,
        "peer": context.peer,
        "principal": str(context.principal),
    }
    if header is not None:
        described["api_key"] = header.api_key
        described["api_version"] = header.api_version
        described["correlation_id"] = header.correlation_id
        described["client_id"] = header.client_id or ""
    if trace_id:
        described["trace_id"] = trace_id
    return described
