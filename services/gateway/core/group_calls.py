"""A request about several groups: one call to each partition of `__consumer_offsets` that has some of them, and one
answer of all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.channel.messages import GroupAnswer
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Request, Response
from barnabas.wire.primitives import Buffer, MalformedFrame
from services.gateway.core.coordination import PendingAsk
from services.gateway.core.group_call import group_call, lost_error
from services.gateway.core.slots import Slot

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection

Query = TypeVar("Query")


class PendingGroupCalls(Slot, ABC, Generic[Query]):
    """Subclasses say what to ask (`request_of`), what to do with an answer (`fill`) or without one (`fail`), and how it
    ends (`complete`).
    """

    __slots__ = ("_asked", "_questions", "call_version")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.call_version = header.api_version
        """Of the calls; another one than the client's where that is translated."""
        self._questions: dict[tuple[int, int], list[Query]] = {}
        """By node id and partition of `__consumer_offsets`, until they are asked."""
        self._asked: dict[PendingAsk, list[Query]] = {}
        """Unanswered."""

    def add(self, group_id: str, query: Query) -> None:
        """Have this asked of the group's coordinator, by `ask`."""
        coordinator = self.connection.processor.group_routing.coordinator_of(group_id)
        if coordinator is None:
            self.fail([query], ErrorCode.NOT_COORDINATOR)
        else:
            self.add_at(coordinator.node_id, coordinator.partition, query)

    def add_at(self, node_id: int, partition: int, query: Query) -> None:
        """Have this asked of that logstore, by `ask`."""
        self._questions.setdefault((node_id, partition), []).append(query)

    def ask(self) -> None:
        """Put the questions."""
        processor = self.connection.processor
        for (node_id, partition), queries in self._questions.items():
            body = encode_body(self.request_of(queries), self.call_version)
            message = group_call(self, partition, self.call_version, body)
            ask = processor.coordination.submit(self, node_id, message)
            if ask is None:
                self.fail(queries, ErrorCode.NOT_COORDINATOR)
            else:
                self._asked[ask] = queries
        self._questions.clear()
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
        if not self._asked:
            self.complete()

    def group_lost(self, ask: PendingAsk) -> None:
        self.fail(self._asked.pop(ask), lost_error(ask))
        if not self._asked:
            self.complete()

    def expire(self, now_ms: int) -> None:
        for ask, queries in self._asked.items():
            self.fail(queries, lost_error(ask))
        self.cancel()
        self.complete()

    def cancel(self) -> None:
        for ask in self._asked:
            self.connection.processor.coordination.forget(ask)
        self._asked.clear()

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


def decode_answer(api_key: int, version: int, body: Buffer) -> Response:
    """A coordinator's response body; raises MalformedMessage for what is none."""
    try:
        return decode_response_body(api_key, version, memoryview(body))
    except MalformedFrame as error:
        raise MalformedMessage(
            f"a coordinator answered API key {api_key} v{version} with no response: {error}"
        ) from None
