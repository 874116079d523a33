"""The core's log lines. Each line about a connection identifies it, so that the client can be found."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.wire.headers import RequestHeader
from services.gateway.core.model.authorization import RequestContext
from services.gateway.core.model.outputs import Log, LogLevel


class LogLineBuffer:
    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: list[Log] = []
        """The lines of this turn."""

    def note(
        self,
        level: LogLevel,
        event: str,
        context: RequestContext,
        header: RequestHeader | None,
        fields: Mapping[str, str | int],
        trace_id: str = "",
    ) -> None:
        """`header`: of the request that the line is about, if there is one; `trace_id`: if it is traced."""
        described: dict[str, str | int] = {
            "connection_id": context.connection_id,
            "listener": context.listener,
            "peer": context.peer,
            "principal": context.principal,
        }
        if header is not None:
            described["api_key"] = header.api_key
            described["api_version"] = header.api_version
            described["correlation_id"] = header.correlation_id
            described["client_id"] = header.client_id or ""
        if trace_id:
            described["trace_id"] = trace_id
        self.lines.append(Log(level, event, described | dict(fields)))

    def drain_lines(self) -> list[Log]:
        lines = self.lines
        self.lines = []
        return lines
