"""A request that is sent to one or several logstores and answered when all calls have ended.

Each logstore gets one call, or for a large request several, one after the other: calls of others go in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import ClassVar, Generic, Protocol, TypeVar

from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from barnabas.cluster.image import ClusterImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.backends.logstore_admin_client import LogstoreAdminClient
from barnabas_gateway.core.connections.connection import BaseRequest, Connection
from barnabas_gateway.core.model.outputs import LogstoreCall
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment


class AdminHandler(Handler):
    """Serves an API by calling logstores."""

    def __init__(self, environment: RequestEnvironment, logstore_admin: LogstoreAdminClient) -> None:
        super().__init__(environment)
        self.logstore_admin = logstore_admin


class HasErrorCode(Protocol):
    """A partition of a response."""

    error_code: int


Query = TypeVar("Query")
Result = TypeVar("Result", bound=HasErrorCode)


class Question(Generic[Query, Result]):
    """What a logstore is asked for one partition, and where its answer belongs in the response."""

    __slots__ = ("query", "result")

    def __init__(self, query: Query, result: Result) -> None:
        self.query = query
        self.result = result


class PendingAdminRequest(BaseRequest[AdminHandler], ABC, Generic[Query, Result]):
    """Subclasses say what to ask (`request_of`), what to do with an answer (`fill_results`), how it ends (`complete`).

    `UNREACHED` marks what was certainly not sent, `LOST` what was sent and not answered.
    """

    __slots__ = ("_calls", "_questions", "_until_ms")

    UNREACHED: ClassVar[ErrorCode] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    LOST: ClassVar[ErrorCode] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    CALL_QUERIES_MAX: ClassVar[int] = 500
    """Each takes an event loop about 10 µs to read and the same to answer."""

    def __init__(self, handler: AdminHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._questions: dict[int, deque[list[Question[Query, Result]]]] = {}
        """By node id, a list for each call; the first is the one in flight, if there is one."""
        self._calls: dict[int, LogstoreCall] = {}
        """Unanswered calls, by node id."""
        self._until_ms = 0

    def add_query(self, node_id: int, query: Query, result: Result) -> None:
        """Have this asked of that logstore, by `send_calls`."""
        calls = self._questions.setdefault(node_id, deque())
        if not calls or len(calls[-1]) >= self.CALL_QUERIES_MAX:
            calls.append([])
        calls[-1].append(Question(query, result))

    def send_calls(self, timeout_ms: int) -> None:
        """Send the calls, and wait for `timeout_ms` at most."""
        handler = self.handler
        self._until_ms = handler.clock.now_ms + timeout_ms
        for node_id in self._questions:
            self._ask_next(node_id)
        if self._calls:
            handler.deadlines.schedule(self, self._until_ms)
        else:
            self.complete()

    def _ask_next(self, node_id: int) -> None:
        """Send the next call to this logstore, if there is one; a call that ends makes way for the next."""
        handler, calls = self.handler, self._questions[node_id]
        while calls:
            request = self.request_of([question.query for question in calls[0]])
            timeout_ms = max(0, self._until_ms - handler.clock.now_ms)
            call = handler.logstore_admin.call_logstore(self, node_id, request, timeout_ms)
            if call is not None:
                self._calls[node_id] = call
                return
            self.fail_queries(calls.popleft(), self.UNREACHED)

    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        if self._calls.pop(call.node_id, None) is not call:
            return
        questions = self._questions[call.node_id].popleft()
        if answer is None:
            self.fail_queries(questions, self.LOST)
        else:
            self.fill_results(questions, answer)
        self._ask_next(call.node_id)
        if not self._calls:
            self.complete()

    def expire(self, now_ms: int) -> None:
        for calls in self._questions.values():
            for questions in calls:
                self.fail_queries(questions, ErrorCode.REQUEST_TIMED_OUT)
        self.cancel()
        self.complete()

    def cancel(self) -> None:
        for call in self._calls.values():
            self.handler.logstore_admin.forget_call(call)
        self._calls.clear()
        self._questions.clear()

    def fail_queries(self, questions: list[Question[Query, Result]], error: ErrorCode) -> None:
        """A logstore does not answer these."""
        for question in questions:
            question.result.error_code = error

    @abstractmethod
    def request_of(self, queries: list[Query]) -> AdministrationRequest:
        """Return the call for these to one logstore."""

    @abstractmethod
    def fill_results(self, questions: list[Question[Query, Result]], answer: AdministrationResponse) -> None:
        """Put a logstore's answer into the response."""

    @abstractmethod
    def complete(self) -> None:
        """Respond: all that can be known is known."""


def leader_of(image: ClusterImage, topic: str, partition: int) -> tuple[bytes, int] | None:
    """Return (topic id, node id of the leader, or -1 without one) of a partition by name; None: it does not exist."""
    metadata = image.topics_by_name.get(topic)
    if metadata is None:
        return None
    leader = image.partition(metadata.topic_id, partition)
    return None if leader is None else (metadata.topic_id, leader.leader)
