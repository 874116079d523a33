"""Records of calls to the operators' API, on their way to the topic of the audit.

A controller appends no records. The active one sends its own to a gateway that has `audit.topic`, on that gateway's
subscription; another one sends its own to the active one. What is on its way when a process ends is in the log of the
controller that was called, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

EVENT: Final = "operator's call"
TEXT_LENGTH_MAX: Final = 1_024
"""Of each text, in characters: a caller chooses some of them."""
_TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, after which there is no date."""


@dataclass(slots=True, frozen=True)
class OperatorCall:
    """One call and its verdict."""

    # Unix time.
    time_ms: int
    controller_id: str
    # Who called: a name in a certificate, or a token's subject; empty: it was not authenticated.
    principal: str
    peer: str
    # The path of the method.
    operation: str
    # "allowed", "denied" or "unauthenticated".
    verdict: str
    # Why not; empty if it was allowed.
    reason: str = ""


@dataclass(slots=True, frozen=True)
class RecordOperatorCallsRequest:
    """Of a controller that is not active, to the one that is."""

    calls: list[OperatorCall] = field(default_factory=list)


def bounded(call: OperatorCall) -> OperatorCall:
    """Return what is kept of a call: each text shortened, and a time that is a date."""
    texts = (call.controller_id, call.principal, call.peer, call.operation, call.verdict, call.reason)
    time_ms = min(max(0, call.time_ms), _TIME_MS_MAX)
    return OperatorCall(time_ms, *[text[:TEXT_LENGTH_MAX] for text in texts])
