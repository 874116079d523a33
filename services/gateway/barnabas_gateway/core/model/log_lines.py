"""The core's log lines. Each about a connection says which: whoever reads it wants to find the client."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.model.authorization import RequestContext
from barnabas_gateway.core.model.outputs import Log, LogLevel


class LogLineBuffer:
    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: list[Log] = []
        """This turn's."""

    def note(
        self,
        level: LogLevel,
        event: str,
        context: RequestContext,
        header: RequestHeader | None,
        fields: Mapping[str, str | int],
        trace_id: str = "",
    ) -> None:
        """`header`: of the request that the line is about, where there is one; `trace_id`: where it is traced."""
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
