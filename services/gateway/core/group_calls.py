"""A request about several groups: a call to each partition of `__consumer_offsets` that has some of them, or more where
much is asked, and one answer of all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from barnabas.channel.messages import GroupAnswer
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Request, Response
from services.gateway.core.coordination import PendingAsk
from services.gateway.core.group_call import GROUP_CALL_ELEMENTS_MAX, decode_answer, group_call, lost_error
from services.gateway.core.slots import Slot

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection

Query = TypeVar("Query")

GROUP_CALLS_AT_ONCE: Final = 8
"""Of one request: what others ask of the same coordinator goes between them."""


class PendingGroupCalls(Slot, ABC, Generic[Query]):
    """Subclasses say what to ask (`request_of`), what to do with an answer (`fill`) or without one (`fail`), and how it
    ends (`complete`).
    """

    __slots__ = ("_asked", "_calls", "_open", "call_version")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.call_version = header.api_version
        """Of the calls; another one than the client's where that is translated."""
        self._calls: deque[tuple[int, int, list[Query]]] = deque()
        """Node id, partition of `__consumer_offsets`, and what is asked there; not sent yet."""
        self._open: dict[tuple[int, int], tuple[list[Query], int]] = {}
        """By node id and partition, the last of these calls and its elements: there may be room for more in it."""
        self._asked: dict[PendingAsk, list[Query]] = {}
        """Unanswered."""

    def add(self, group_id: str, query: Query, elements: int = 1) -> None:
        """Have this asked of the group's coordinator, by `ask`."""
        coordinator = self.connection.processor.group_routing.coordinator_of(group_id)
        if coordinator is None:
            self.fail([query], ErrorCode.NOT_COORDINATOR)
        else:
            self.add_at(coordinator.node_id, coordinator.partition, query, elements)

    def add_at(self, node_id: int, partition: int, query: Query, elements: int = 1) -> None:
        """Have this asked of that logstore, by `ask`; `elements` is how much is asked."""
        queries, count = self._open.get((node_id, partition), ([], GROUP_CALL_ELEMENTS_MAX))
        if count + elements > GROUP_CALL_ELEMENTS_MAX:
            queries, count = [], 0
            self._calls.append((node_id, partition, queries))
        queries.append(query)
        self._open[node_id, partition] = (queries, count + elements)

    def ask(self) -> None:
        """Put the questions."""
        self._open.clear()
        self._ask_next()

    def _ask_next(self) -> None:
        """As many calls at once as there may be; respond when all are answered."""
        processor = self.connection.processor
        while self._calls and len(self._asked) < GROUP_CALLS_AT_ONCE:
            node_id, partition, queries = self._calls.popleft()
            body = encode_body(self.request_of(queries), self.call_version)
            message = group_call(self, partition, self.call_version, body)
            ask = processor.coordination.submit(self, node_id, message)
            if ask is None:
                self.fail(queries, ErrorCode.NOT_COORDINATOR)
            else:
                self._asked[ask] = queries
        if self._asked:
            processor.deadlines.add(self, processor.now_ms + processor.config.group_call_ms_max)
        else:
            self.complete()

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None:
        if answer.body:
            # Where this raises, the call stays unanswered.
            response = decode_answer(self.header.api_key, self.call_version, answer.body)
            self.fill(self._asked.pop(ask), response)
        else:
            self.fail(self._asked.pop(ask), answer.error_code or ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._ask_next()

    def group_lost(self, ask: PendingAsk) -> None:
        self.fail(self._asked.pop(ask), lost_error(ask))
        self._ask_next()

    def expire(self, now_ms: int) -> None:
        for ask, queries in self._asked.items():
            self.fail(queries, lost_error(ask))
        for _, _, queries in self._calls:
            self.fail(queries, ErrorCode.NOT_COORDINATOR)
        self.cancel()
        self.complete()

    def cancel(self) -> None:
        for ask in self._asked:
            self.connection.processor.coordination.forget(ask)
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
