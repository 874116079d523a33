"""A request that is put to one or several logstores, one call each, and answered when all calls are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from barnabas.cluster.image import ClusterImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from services.gateway.core.effects import LogstoreCall
from services.gateway.core.slots import Slot

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection


class HasErrorCode(Protocol):
    """A partition of a response."""

    error_code: int


Query = TypeVar("Query")
Result = TypeVar("Result", bound=HasErrorCode)


@dataclass(slots=True, frozen=True)
class Question(Generic[Query, Result]):
    """What is asked of a logstore for one partition, and where the answer belongs in the response."""

    query: Query
    result: Result


class PendingCalls(Slot, ABC, Generic[Query, Result]):
    """Subclasses say what to ask (`request_of`), what to do with an answer (`fill`), and how it ends (`complete`).

    What certainly was not asked is `UNREACHED`; what was, and not answered, `LOST`.
    """

    __slots__ = ("_calls", "_questions")

    UNREACHED: ClassVar[ErrorCode] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    LOST: ClassVar[ErrorCode] = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self._questions: dict[int, list[Question[Query, Result]]] = {}
        """By node id."""
        self._calls: dict[int, LogstoreCall] = {}
        """Unanswered, by node id."""

    def add(self, node_id: int, query: Query, result: Result) -> None:
        """Have this asked of that logstore, by `ask`."""
        self._questions.setdefault(node_id, []).append(Question(query, result))

    def ask(self, timeout_ms: int) -> None:
        """Put the questions, and wait for `timeout_ms` at most."""
        processor = self.connection.processor
        for node_id, questions in self._questions.items():
            request = self.request_of([question.query for question in questions])
            call = processor.administration.call(self, node_id, request, timeout_ms)
            if call is None:
                self.fail(questions, self.UNREACHED)
            else:
                self._calls[node_id] = call
        if self._calls:
            processor.deadlines.add(self, processor.now_ms + timeout_ms)
        else:
            self.complete()

    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        questions = self._questions[call.node_id]
        del self._calls[call.node_id]
        if answer is None:
            self.fail(questions, self.LOST)
        else:
            self.fill(questions, answer)
        if not self._calls:
            self.complete()

    def expire(self, now_ms: int) -> None:
        for node_id in self._calls:
            self.fail(self._questions[node_id], ErrorCode.REQUEST_TIMED_OUT)
        self.cancel()
        self.complete()

    def cancel(self) -> None:
        for call in self._calls.values():
            self.connection.processor.administration.forget(call)
        self._calls.clear()

    def fail(self, questions: list[Question[Query, Result]], error: ErrorCode) -> None:
        """A logstore does not answer these."""
        for question in questions:
            question.result.error_code = error

    @abstractmethod
    def request_of(self, queries: list[Query]) -> AdministrationRequest:
        """The call that asks these of one logstore."""

    @abstractmethod
    def fill(self, questions: list[Question[Query, Result]], answer: AdministrationResponse) -> None:
        """Put a logstore's answer into the response."""

    @abstractmethod
    def complete(self) -> None:
        """Respond: all that can be known is."""


def leader_of(image: ClusterImage, topic: str, partition: int) -> tuple[bytes, int] | None:
    """(topic id, node id of the leader, or -1 without one) of a partition by name; None: there is no such partition."""
    metadata = image.topics_by_name.get(topic)
    if metadata is None:
        return None
    leader = image.partition(metadata.topic_id, partition)
    return None if leader is None else (metadata.topic_id, leader.leader)
