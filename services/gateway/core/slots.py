"""One request of a connection, from its frame to its answer.

Answers leave a connection in the order of its requests; a slot holds a request's place in that order. What a request
needs while it is worked on is in the subclass of its API, so that each request costs one object.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from barnabas.cluster.administration import AdministrationResponse
from barnabas.wire.headers import RequestHeader
from barnabas.wire.primitives import Buffer, Steps

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection
    from services.gateway.core.effects import ControllerAnswer, LogstoreCall
    from services.gateway.core.request_timing import RequestTiming


class ResponseKind(IntEnum):
    """What can come out of a request (`RequestChannel.Response` in Kafka)."""

    SEND = 1
    NO_OP = 2
    """Nothing is sent, and the next answer may go: a produce with acks=0."""
    CLOSE = 3
    """The connection ends in the place of the answer: a produce with acks=0 that failed, which has no other voice."""
    START_THROTTLING = 4
    """The connection is muted; the answer itself has gone out at once (KIP-219)."""
    END_THROTTLING = 5


class Slot:
    __slots__ = (
        "buffers",
        "connection",
        "deadline_bucket",
        "frame_bytes",
        "header",
        "is_long",
        "kind",
        "reserved_bytes",
        "steps",
        "timing",
    )

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        self.connection = connection
        self.header = header
        self.frame_bytes = frame_bytes
        self.kind: ResponseKind | None = None
        """None until the request is answered; then SEND, NO_OP or CLOSE."""
        self.buffers: list[Buffer] | None = None
        """The answer's frame, with SEND."""
        self.reserved_bytes = 0
        """Held in `FetchMemory` for the answer until it goes out."""
        self.deadline_bucket = -1
        self.is_long = False
        """Whether it names more than `SHORT_ELEMENTS_MAX`, or its answer may."""
        self.steps: Steps[None] | None = None
        """What `RequestSteps` is still to do for it; None while that is under way, and when there is nothing."""
        self.timing: RequestTiming | None = None
        """Of the few that are timed (`request_metrics`), until the answer is out."""

    @property
    def trace_id(self) -> str:
        """For lines of the log about it, in hex; empty where it is not traced."""
        timing = self.timing
        return "" if timing is None or timing.trace is None else timing.trace.trace_id.hex()

    def expire(self, now_ms: int) -> None:
        """Its deadline has come. Only requests that wait for others set one."""
        raise AssertionError("a request without a deadline expired")

    def cancel(self) -> None:
        """Its connection is gone: drop what was not sent, cancel what waits."""

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        """The controller's answer to its call, None when no controller could be asked."""
        raise AssertionError("a request that asked nothing was answered")

    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        """A logstore's answer to a call, None when it was lost."""
        raise AssertionError("a request that asked no logstore was answered")

    def revision_applied(self) -> None:
        """The revision that it waited for is in the image."""
        raise AssertionError("a request that waited for nothing was told so")
