"""The core's log lines. Each line about a connection identifies it, so that the client can be found."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.containment import Containment, Place
from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.model.containment import PLACES, describe_request
from barnabas_gateway.core.model.outputs import Log, LogLevel, Turn
from barnabas_gateway.core.model.request_context import RequestContext


class LogLineBuffer:
    """Describes what a line is about, and puts it into the outputs of the turn."""

    __slots__ = ("_turn", "contained")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.contained = Containment(PLACES)
        """The unexpected exceptions of this processor."""

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
        described = describe_request(context, header, trace_id)
        self._turn.outputs.logs.append(Log(level, event, described | dict(fields), is_audited))

    def contain(
        self,
        place: Place,
        error: Exception | str,
        context: RequestContext,
        header: RequestHeader | None = None,
        trace_id: str = "",
    ) -> None:
        """Note an unexpected exception, or the traceback of one."""
        described = describe_request(context, header, trace_id)
        if isinstance(error, str):
            self.contained.contain_fault(place, error, described)
        else:
            self.contained.contain(place, error, described)
