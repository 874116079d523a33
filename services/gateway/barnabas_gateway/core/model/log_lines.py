"""The core's log lines. Each line about a connection identifies it, so that the client can be found."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.model.outputs import Log, LogLevel, Turn
from barnabas_gateway.core.model.request_context import RequestContext


class LogLineBuffer:
    """Describes what a line is about, and puts it into the outputs of the turn."""

    __slots__ = ("_turn",)

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def add_line(
        self,
        level: LogLevel,
        event: str,
        context: RequestContext,
        header: RequestHeader | None,
        fields: Mapping[str, str | int],
        trace_id: str = "",
        *,
        is_audited: bool = False,
    ) -> None:
        """`header`: of the request that the line is about, if there is one; `trace_id`: if it is traced; `is_audited`:
        it is a record of the audit.
        """
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
        self._turn.outputs.logs.append(Log(level, event, described | dict(fields), is_audited))
