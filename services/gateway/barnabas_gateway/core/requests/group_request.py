"""Requests that coordinators of groups answer.

`PendingGroupRequest` is about one group: put to its coordinator by one call, whose answer goes to the client as it
comes. `PendingSplitGroupRequest` may take several calls, one after the other. `PendingGroupsRequest` is about several
groups: a call to each partition of `__consumer_offsets` that has some of them, or more where much is asked, and one
answer of all.

Errors of the whole call: what was certainly not done is NOT_COORDINATOR, so that clients look up the coordinator again
and retry. What was sent and not answered may have been done: COORDINATOR_NOT_AVAILABLE, which is what Kafka's
coordinator returns for a record whose outcome it does not know (`CoordinatorOperationExceptionHelper`), and clients
treat it the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Final, Generic, TypeVar

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupWait
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response_body, decode_response_body_in_steps, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Request, Response
from barnabas.wire.primitives import Buffer, MalformedFrame, Steps
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient, PendingAsk
from barnabas_gateway.core.backends.group_routing import Coordinator, GroupRouting
from barnabas_gateway.core.connections.connection import BaseRequest, Connection, PendingRequest
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment

GROUP_CALL_ELEMENTS_MAX: Final = 500
"""Elements in one call, about 10 µs each in the coordinator's turn. Larger requests are split into several calls, or
are refused.
"""
_LONG_ANSWER_BYTES: Final = 16 << 10
"""A longer answer has more elements than are decoded at once."""
GROUP_CALL_BYTES_MAX: Final = 8 << 20
"""Bytes of one call. A coordinator writes its content as one batch, for which topics allow 1 MiB by default."""

Query = TypeVar("Query")


class GroupHandler(Handler):
    """Serves an API by calling coordinators of groups."""

    def __init__(
        self, environment: RequestEnvironment, coordinators: CoordinatorClient, group_routing: GroupRouting
    ) -> None:
        super().__init__(environment)
        self.coordinators = coordinators
        self.group_routing = group_routing


def group_call(pending: PendingRequest, partition: int, version: int, body: Buffer) -> GroupCall:
    """Create the call for this client, with the key of its request; `CoordinatorClient` numbers it.

    A coordinator remembers who joins, and asks for no other client's name and host.
    """
    header = pending.header
    if header.api_key != ApiKey.JOIN_GROUP:
        return GroupCall(0, partition, header.api_key, version, "", "", body)
    return GroupCall(
        0, partition, header.api_key, version, header.client_id or "", f"/{pending.connection.context.address}", body
    )


class PendingGroupRequest(BaseRequest[GroupHandler], ABC):
    """Subclasses define how an error is returned to the client (`refuse`)."""

    __slots__ = ("_ask", "_coordinator")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._ask: PendingAsk | None = None
        """Not answered."""
        self._coordinator: Coordinator | None = None

    def call_coordinator(self, group_id: str, version: int, body: Buffer) -> None:
        """Send this body, of that version, to the coordinator of the group."""
        handler = self.handler
        if len(body) > GROUP_CALL_BYTES_MAX:
            self.refuse(ErrorCode.INVALID_REQUEST)
            return
        self._coordinator = coordinator = handler.group_routing.coordinator_of(group_id)
        if coordinator is not None:
            message = group_call(self, coordinator.partition, version, body)
            self._ask = handler.coordinators.submit_ask(self, coordinator.node_id, message)
        if self._ask is None:
            self.refuse(ErrorCode.NOT_COORDINATOR)
        else:
            handler.deadlines.schedule(self, handler.clock.now_ms + handler.config.group_call_ms_max)

    @property
    def is_asked(self) -> bool:
        """Whether a call is not answered."""
        return self._ask is not None

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None:
        if answer.body:
            self.answer(answer.body)
            if self._ask is ask:
                # They refer to each other, and what a long request has collected would wait for the garbage collector.
                self._ask = None
            return
        self._ask = None
        if answer.wait is not None and not answer.error_code:
            self.has_to_wait(answer.wait)
        else:
            self.refuse(answer.error_code or ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def answer(self, body: Buffer) -> None:
        """The coordinator's response body, of the version that was called.

        If it is recognized as no such body, MalformedMessage is raised, and the call stays unanswered.
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

    @abstractmethod
    def refuse(self, error: int) -> None:
        """The call does not succeed: respond with the error, as this API does."""


class PendingSplitGroupRequest(PendingGroupRequest, ABC):
    """A request that may be split into several calls, one after the other: then subclasses merge the answers."""

    __slots__ = ("_group_id", "_is_split", "asked", "parts")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._group_id = ""
        self.asked: Request | None = None
        """The part that is not answered yet, or the request, if it is forwarded unchanged."""
        self._is_split = False
        self.parts: deque[Request] = deque()
        """Parts that have not been sent."""

    @property
    def call_version(self) -> int:
        return self.header.api_version

    def call_parts(self, group_id: str) -> None:
        """Send `parts`, of which there is at least one."""
        self._group_id = group_id
        self._is_split = True
        self._call_next()

    def _call_next(self) -> None:
        self.asked = self.parts.popleft()
        self.call_coordinator(self._group_id, self.call_version, encode_body(self.asked, self.call_version))

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
        """Merge the answer to `asked` with those before it. False: that has ended the request."""

    @abstractmethod
    def respond(self) -> None:
        """Respond with what is known so far."""


class _Call(Generic[Query]):
    """One call to one partition of `__consumer_offsets`."""

    __slots__ = ("elements", "node_id", "partition", "queries")

    def __init__(self, node_id: int, partition: int) -> None:
        self.node_id = node_id
        self.partition = partition
        self.queries: list[Query] = []
        self.elements = 0


class PendingGroupsRequest(BaseRequest[GroupHandler], ABC, Generic[Query]):
    """Subclasses say what to ask (`request_of`), what to do with an answer (`fill_results`) or without one
    (`fail_queries`), and how it ends (`complete`).
    """

    __slots__ = ("_asked", "_calls", "_elements_asked", "_long_answers", "_open", "call_version")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.call_version = header.api_version
        """The version of the calls; it differs from the client's if that is translated."""
        self._calls: deque[_Call[Query]] = deque()
        """Not sent yet."""
        self._open: dict[tuple[int, int], _Call[Query]] = {}
        """By node id and partition, the last of these: it may have space for more."""
        self._asked: dict[PendingAsk, _Call[Query]] = {}
        """Unanswered."""
        self._elements_asked = 0
        """In those."""
        self._long_answers: deque[tuple[PendingAsk, Buffer]] = deque()
        """Being decoded, the first of them."""

    def add_query(self, group_id: str, query: Query, elements: int = 1) -> None:
        """Have this asked of the group's coordinator, by `send_calls`."""
        coordinator = self.handler.group_routing.coordinator_of(group_id)
        if coordinator is None:
            self.fail_queries([query], ErrorCode.NOT_COORDINATOR)
        else:
            self.add_query_at(coordinator.node_id, coordinator.partition, query, elements)

    def add_query_at(self, node_id: int, partition: int, query: Query, elements: int = 1) -> None:
        """Have this asked of that logstore, by `send_calls`; `elements` is how much is asked."""
        call = self._open.get((node_id, partition))
        if call is None or call.elements + elements > GROUP_CALL_ELEMENTS_MAX:
            call = self._open[node_id, partition] = _Call(node_id, partition)
            self._calls.append(call)
        call.queries.append(query)
        call.elements += elements

    def send_calls(self) -> None:
        """Put the questions."""
        self._open.clear()
        self._ask_next()

    def _ask_next(self) -> None:
        """Send as many calls as have the elements of one; respond when all are answered."""
        handler = self.handler
        while self._calls and (
            not self._asked or self._elements_asked + self._calls[0].elements <= GROUP_CALL_ELEMENTS_MAX
        ):
            call = self._calls.popleft()
            body = encode_body(self.request_of(call.queries), self.call_version)
            message = group_call(self, call.partition, self.call_version, body)
            ask = handler.coordinators.submit_ask(self, call.node_id, message)
            if ask is None:
                self.fail_queries(call.queries, ErrorCode.NOT_COORDINATOR)
            else:
                self._asked[ask] = call
                self._elements_asked += call.elements
        if self._asked:
            handler.deadlines.schedule(self, handler.clock.now_ms + handler.config.group_call_ms_max)
        else:
            self.complete()

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None:
        if ask not in self._asked:
            return  # the request failed while it made the call
        if len(answer.body) > _LONG_ANSWER_BYTES or (answer.body and self._long_answers):
            self._long_answers.append((ask, answer.body))
            if len(self._long_answers) == 1:
                self.handler.responder.begin_steps(self, self._read_long_answers())
            return
        if answer.body:
            # Where this raises, the call stays unanswered.
            response = decode_answer(self.header.api_key, self.call_version, answer.body)
            self.fill_results(self._ended(ask), response)
        else:
            self.fail_queries(self._ended(ask), answer.error_code or ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._ask_next()

    def _read_long_answers(self) -> Steps[None]:
        """Decode what is too long for one turn, and what came after it; until then a call counts as unanswered."""
        while self._long_answers:
            ask, body = self._long_answers[0]
            response = yield from decode_response_body_in_steps(
                self.header.api_key, self.call_version, memoryview(body)
            )
            self._long_answers.popleft()
            self.fill_results(self._ended(ask), response)
        self._ask_next()

    def _ended(self, ask: PendingAsk) -> list[Query]:
        call = self._asked.pop(ask)
        self._elements_asked -= call.elements
        return call.queries

    def group_lost(self, ask: PendingAsk) -> None:
        if ask in self._asked:
            self.fail_queries(self._ended(ask), lost_error(ask))
            self._ask_next()

    def expire(self, now_ms: int) -> None:
        for ask, call in self._asked.items():
            self.fail_queries(call.queries, lost_error(ask))
        for call in self._calls:
            self.fail_queries(call.queries, ErrorCode.NOT_COORDINATOR)
        self.cancel()
        self.complete()

    def cancel(self) -> None:
        for ask in self._asked:
            self.handler.coordinators.forget_call(ask)
        self._asked.clear()
        self._calls.clear()
        self._long_answers.clear()

    @abstractmethod
    def request_of(self, queries: list[Query]) -> Request:
        """The call that asks these, in `call_version`."""

    @abstractmethod
    def fill_results(self, queries: list[Query], response: Response) -> None:
        """Put a coordinator's answer to these into the response."""

    @abstractmethod
    def fail_queries(self, queries: list[Query], error: int) -> None:
        """These are not answered."""

    @abstractmethod
    def complete(self) -> None:
        """Respond: all that can be known is."""


def decode_answer(api_key: int, version: int, body: Buffer) -> Response:
    """Decode a coordinator's response body; raises MalformedMessage if it is not one."""
    try:
        return decode_response_body(api_key, version, memoryview(body))
    except MalformedFrame as error:
        raise MalformedMessage(
            f"a coordinator answered API key {api_key} v{version} with no response: {error}"
        ) from None


def lost_error(ask: PendingAsk) -> ErrorCode:
    """Return the error for a call that is not answered."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if ask.was_sent else ErrorCode.NOT_COORDINATOR
