"""A request about several groups: a call to each partition of `__consumer_offsets` that has some of them, or several
calls for large requests, and one merged response.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, TypeVar

from barnabas.channel.messages import GroupAnswer
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Request, Response
from services.gateway.core.backends.coordinator_client import PendingAsk
from services.gateway.core.connections.connection import Connection, PendingRequest
from services.gateway.core.requests.group_request import (
    GROUP_CALL_ELEMENTS_MAX,
    GroupHandler,
    decode_answer,
    group_call,
    lost_error,
)

Query = TypeVar("Query")


class _Call(Generic[Query]):
    """One call to one partition of `__consumer_offsets`."""

    __slots__ = ("elements", "node_id", "partition", "queries")

    def __init__(self, node_id: int, partition: int) -> None:
        self.node_id = node_id
        self.partition = partition
        self.queries: list[Query] = []
        self.elements = 0


class PendingGroupsRequest(PendingRequest, ABC, Generic[Query]):
    """Subclasses define the request (`request_of`), how to use an answer (`fill`) or the lack of one (`fail`), and the
    end (`complete`).
    """

    __slots__ = ("_asked", "_calls", "_elements_asked", "_open", "call_version")

    handler: GroupHandler

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
        """Elements in those."""

    def add(self, group_id: str, query: Query, elements: int = 1) -> None:
        """Add to what `ask` sends to the group's coordinator."""
        coordinator = self.handler.group_routing.coordinator_of(group_id)
        if coordinator is None:
            self.fail([query], ErrorCode.NOT_COORDINATOR)
        else:
            self.add_at(coordinator.node_id, coordinator.partition, query, elements)

    def add_at(self, node_id: int, partition: int, query: Query, elements: int = 1) -> None:
        """Add to what `ask` sends to that logstore; `elements` is how much it is."""
        call = self._open.get((node_id, partition))
        if call is None or call.elements + elements > GROUP_CALL_ELEMENTS_MAX:
            call = self._open[node_id, partition] = _Call(node_id, partition)
            self._calls.append(call)
        call.queries.append(query)
        call.elements += elements

    def ask(self) -> None:
        """Send the calls."""
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
            ask = handler.coordinators.submit(self, call.node_id, message)
            if ask is None:
                self.fail(call.queries, ErrorCode.NOT_COORDINATOR)
            else:
                self._asked[ask] = call
                self._elements_asked += call.elements
        if self._asked:
            handler.deadlines.add(self, handler.clock.now_ms + handler.config.group_call_ms_max)
        else:
            self.complete()

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None:
        if answer.body:
            # If this raises, the call stays unanswered.
            response = decode_answer(self.header.api_key, self.call_version, answer.body)
            self.fill(self._ended(ask), response)
        else:
            self.fail(self._ended(ask), answer.error_code or ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._ask_next()

    def _ended(self, ask: PendingAsk) -> list[Query]:
        call = self._asked.pop(ask)
        self._elements_asked -= call.elements
        return call.queries

    def group_lost(self, ask: PendingAsk) -> None:
        self.fail(self._ended(ask), lost_error(ask))
        self._ask_next()

    def expire(self, now_ms: int) -> None:
        for ask, call in self._asked.items():
            self.fail(call.queries, lost_error(ask))
        for call in self._calls:
            self.fail(call.queries, ErrorCode.NOT_COORDINATOR)
        self.cancel()
        self.complete()

    def cancel(self) -> None:
        for ask in self._asked:
            self.handler.coordinators.forget_call(ask)
        self._asked.clear()
        self._calls.clear()

    @abstractmethod
    def request_of(self, queries: list[Query]) -> Request:
        """Return the call for these, in `call_version`."""

    @abstractmethod
    def fill(self, queries: list[Query], response: Response) -> None:
        """Put a coordinator's answer to these into the response."""

    @abstractmethod
    def fail(self, queries: list[Query], error: int) -> None:
        """These are not answered."""

    @abstractmethod
    def complete(self) -> None:
        """Respond: all that can be known is known."""
