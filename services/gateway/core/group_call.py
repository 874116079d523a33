"""A request for one group: put to its coordinator by one call, whose answer goes to the client as it comes.

Errors of the whole call. What was certainly not done is NOT_COORDINATOR: clients look for the coordinator anew, and ask
again. What was sent and not answered may have been done: COORDINATOR_NOT_AVAILABLE, which is what Kafka's coordinator
makes of a record whose fate it does not know (`CoordinatorOperationExceptionHelper`), and clients do the same with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupWait
from barnabas.wire.codec import decode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Request, Response
from barnabas.wire.primitives import Buffer
from services.gateway.core.coordination import PendingAsk
from services.gateway.core.group_routing import Coordinator
from services.gateway.core.slots import Slot

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection


class WithBody(NamedTuple):
    """A request, and the bytes that it was read from."""

    request: Request
    body: memoryview


def decode_with_body(api_key: int, version: int, frame: memoryview, position: int) -> WithBody:
    """For requests that are handed on as they came; raises as `decode_request` does, so what is handed on is whole."""
    return WithBody(decode_request(api_key, version, frame, position), frame[position:])


def group_call(slot: Slot, partition: int, version: int, body: Buffer) -> GroupCall:
    """The call for this client, of the key of its request; `CoordinationRoom` numbers it."""
    header = slot.header
    host = slot.connection.context.peer.rpartition(":")[0].strip("[]")
    return GroupCall(0, partition, header.api_key, version, header.client_id or "", f"/{host}", body)


class PendingGroupCall(Slot, ABC):
    """Subclasses say how a client is told of an error (`refusal`)."""

    __slots__ = ("_ask", "_coordinator")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self._ask: PendingAsk | None = None
        """Not answered."""
        self._coordinator: Coordinator | None = None

    def call(self, group_id: str, version: int, body: Buffer) -> None:
        """Put this body, of that version, to the coordinator of the group."""
        processor = self.connection.processor
        self._coordinator = coordinator = processor.group_routing.coordinator_of(group_id)
        if coordinator is not None:
            message = group_call(self, coordinator.partition, version, body)
            self._ask = processor.coordination.submit(self, coordinator.node_id, message)
        if self._ask is None:
            self.refuse(ErrorCode.NOT_COORDINATOR)
        else:
            processor.deadlines.add(self, processor.now_ms + processor.config.group_call_ms_max)

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
        self.connection.processor.requests.hand_over(self, body)

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
            self.connection.processor.coordination.forget(self._ask)
            self._ask = None

    def refuse(self, error: int) -> None:
        """Nothing comes of the call."""
        self.connection.processor.requests.respond(self, self.refusal(error))

    @abstractmethod
    def refusal(self, error: int) -> Response:
        """How this API says that."""


def lost_error(ask: PendingAsk) -> ErrorCode:
    """What becomes of a call that is not answered."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if ask.was_sent else ErrorCode.NOT_COORDINATOR
