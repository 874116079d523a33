"""A request about several groups: a call to each partition of `__consumer_offsets` that has some of them, or more where
much is asked, and one answer of all.
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
from barnabas_gateway.core.backends.coordinator_client import PendingAsk
from barnabas_gateway.core.connections.connection import Connection, PendingRequest
from barnabas_gateway.core.requests.group_request import (
    GROUP_CALL_ELEMENTS_MAX,
    GroupHandler,
    decode_answer,
    group_call,
    lost_error,
)

Query = TypeVar("Query")


class _Call(Generic[Query]):
    """What is asked of one partition of `__consumer_offsets` at a time."""

    __slots__ = ("elements", "node_id", "partition", "queries")

    def __init__(self, node_id: int, partition: int) -> None:
        self.node_id = node_id
        self.partition = partition
        self.queries: list[Query] = []
        self.elements = 0


class PendingGroupsRequest(PendingRequest, ABC, Generic[Query]):
    """Subclasses say what to ask (`request_of`), what to do with an answer (`fill`) or without one (`fail`), and how it
    ends (`complete`).
    """

    __slots__ = ("_asked", "_calls", "_elements_asked", "_open", "call_version")

    handler: GroupHandler

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.call_version = header.api_version
        """Of the calls; another one than the client's where that is translated."""
        self._calls: deque[_Call[Query]] = deque()
        """Not sent yet."""
        self._open: dict[tuple[int, int], _Call[Query]] = {}
        """By node id and partition, the last of these: there may be room for more in it."""
        self._asked: dict[PendingAsk, _Call[Query]] = {}
        """Unanswered."""
        self._elements_asked = 0
        """In those."""

    def add(self, group_id: str, query: Query, elements: int = 1) -> None:
        """Have this asked of the group's coordinator, by `ask`."""
        coordinator = self.handler.group_routing.coordinator_of(group_id)
        if coordinator is None:
            self.fail([query], ErrorCode.NOT_COORDINATOR)
        else:
            self.add_at(coordinator.node_id, coordinator.partition, query, elements)

    def add_at(self, node_id: int, partition: int, query: Query, elements: int = 1) -> None:
        """Have this asked of that logstore, by `ask`; `elements` is how much is asked."""
        call = self._open.get((node_id, partition))
        if call is None or call.elements + elements > GROUP_CALL_ELEMENTS_MAX:
            call = self._open[node_id, partition] = _Call(node_id, partition)
            self._calls.append(call)
        call.queries.append(query)
        call.elements += elements

    def ask(self) -> None:
        """Put the questions."""
        self._open.clear()
        self._ask_next()

    def _ask_next(self) -> None:
        """As many calls as have the elements of one; respond when all are answered."""
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
            # Where this raises, the call stays unanswered.
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
        """The call that asks these, in `call_version`."""

    @abstractmethod
    def fill(self, queries: list[Query], response: Response) -> None:
        """Put a coordinator's answer to these into the response."""

    @abstractmethod
    def fail(self, queries: list[Query], error: int) -> None:
        """Nobody answers these."""

    @abstractmethod
    def complete(self) -> None:
        """Respond: all that can be known is."""
