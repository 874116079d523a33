"""A request for one group: put to its coordinator by one call, whose answer goes to the client as it comes.

Errors of the whole call. What was certainly not done is NOT_COORDINATOR: clients look for the coordinator anew, and ask
again. What was sent and not answered may have been done: COORDINATOR_NOT_AVAILABLE, which is what Kafka's coordinator
makes of a record whose fate it does not know (`CoordinatorOperationExceptionHelper`), and clients do the same with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Final

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupWait
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Request, Response
from barnabas.wire.primitives import Buffer, MalformedFrame
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient, PendingAsk
from barnabas_gateway.core.backends.group_routing import Coordinator, GroupRouting
from barnabas_gateway.core.connections.connection import Connection, PendingRequest
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment

GROUP_CALL_ELEMENTS_MAX: Final = 500
"""In one call, some 10 µs each in the coordinator's turn. Larger requests are put in several calls, or are refused."""
GROUP_CALL_BYTES_MAX: Final = 8 << 20
"""Of one call. A coordinator writes what it is told as one batch, of which topics allow 1 MiB by default."""


class GroupHandler(Handler):
    """Serves an API by asking coordinators of groups."""

    def __init__(
        self, environment: RequestEnvironment, coordinators: CoordinatorClient, group_routing: GroupRouting
    ) -> None:
        super().__init__(environment)
        self.coordinators = coordinators
        self.group_routing = group_routing


def group_call(pending: PendingRequest, partition: int, version: int, body: Buffer) -> GroupCall:
    """The call for this client, of the key of its request; `CoordinatorClient` numbers it."""
    header = pending.header
    host = pending.connection.context.peer.rpartition(":")[0].strip("[]")
    return GroupCall(0, partition, header.api_key, version, header.client_id or "", f"/{host}", body)


class PendingGroupRequest(PendingRequest, ABC):
    """Subclasses say how a client is told of an error (`refusal`)."""

    __slots__ = ("_ask", "_coordinator")

    handler: GroupHandler

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._ask: PendingAsk | None = None
        """Not answered."""
        self._coordinator: Coordinator | None = None

    def call(self, group_id: str, version: int, body: Buffer) -> None:
        """Put this body, of that version, to the coordinator of the group."""
        handler = self.handler
        if len(body) > GROUP_CALL_BYTES_MAX:
            self.refuse(ErrorCode.INVALID_REQUEST)
            return
        self._coordinator = coordinator = handler.group_routing.coordinator_of(group_id)
        if coordinator is not None:
            message = group_call(self, coordinator.partition, version, body)
            self._ask = handler.coordinators.submit(self, coordinator.node_id, message)
        if self._ask is None:
            self.refuse(ErrorCode.NOT_COORDINATOR)
        else:
            handler.deadlines.add(self, handler.clock.now_ms + handler.config.group_call_ms_max)

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None:
        if answer.body:
            self.answer(answer.body)
            return
        self._ask = None
        if answer.wait is not None and not answer.error_code:
            self.has_to_wait(answer.wait)
        else:
            self.refuse(answer.error_code or ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def answer(self, body: Buffer) -> None:
        """The coordinator's response body, of the version that was called.

        Where it is no such body and that is seen, MalformedMessage is raised, and the call stays unanswered.
        """
        self.handler.responder.respond_encoded(self, body)

    def has_to_wait(self, wait: GroupWait) -> None:
        """Only joins and syncs wait."""
        self.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def group_lost(self, ask: PendingAsk) -> None:
        self._ask = None
        self.refuse(lost_error(ask))

    def expire(self, now_ms: int) -> None:
        """The coordinator has taken too long."""
        ask = self._ask
        assert ask is not None, "a call that was answered has no deadline"
        self.cancel()
        self.refuse(lost_error(ask))

    def cancel(self) -> None:
        if self._ask is not None:
            self.handler.coordinators.forget_call(self._ask)
            self._ask = None

    def refuse(self, error: int) -> None:
        """Nothing comes of the call."""
        self.handler.responder.respond(self, self.refusal(error))

    @abstractmethod
    def refusal(self, error: int) -> Response:
        """How this API says that."""


class PendingSplitGroupRequest(PendingGroupRequest, ABC):
    """One that may be put in several calls, one after the other: then subclasses put the answers together."""

    __slots__ = ("_group_id", "_is_split", "asked", "parts")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._group_id = ""
        self.asked: Request | None = None
        """The part that is not answered yet, or the request, where it goes as it came."""
        self._is_split = False
        self.parts: deque[Request] = deque()
        """Those that have not been called."""

    @property
    def call_version(self) -> int:
        return self.header.api_version

    def call_parts(self, group_id: str) -> None:
        """Call `parts`, of which there is one at least."""
        self._group_id = group_id
        self._is_split = True
        self._call_next()

    def _call_next(self) -> None:
        self.asked = self.parts.popleft()
        self.call(self._group_id, self.call_version, encode_body(self.asked, self.call_version))

    def answer(self, body: Buffer) -> None:
        if not self._is_split:
            super().answer(body)
            return
        response = decode_answer(self.header.api_key, self.call_version, body)
        if not self.merge(response):
            return
        if self.parts:
            self._call_next()
        else:
            self.respond()

    @abstractmethod
    def merge(self, response: Response) -> bool:
        """Put the answer to `asked` to those before it; False: that has ended the request."""

    @abstractmethod
    def respond(self) -> None:
        """With what is known so far."""


def decode_answer(api_key: int, version: int, body: Buffer) -> Response:
    """A coordinator's response body; raises MalformedMessage for what is none."""
    try:
        return decode_response_body(api_key, version, memoryview(body))
    except MalformedFrame as error:
        raise MalformedMessage(
            f"a coordinator answered API key {api_key} v{version} with no response: {error}"
        ) from None


def lost_error(ask: PendingAsk) -> ErrorCode:
    """What becomes of a call that is not answered."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if ask.was_sent else ErrorCode.NOT_COORDINATOR
