"""A request that the controller decides, sent to it in calls of some elements, one after the other.

A controller that decides about hundreds of thousands of names in one turn loses its lease by that, and another one
takes over. So a call has `CALL_ELEMENTS_MAX` elements at most, and the next one is sent when it is answered: in between
the controller has its own turns, and those of other requests. All calls share the timeout that the client gave.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.backends.controller_client import ControllerClient
from barnabas_gateway.core.connections.connection import BaseRequest, Connection
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment

CALL_ELEMENTS_MAX: Final = 100
"""A new topic takes a controller about 100 µs, and its answer a gateway. One query with more elements is sent alone."""
UNKNOWN_NAMES_MAX: Final = 100
"""The maximum number of names unknown to this gateway for which one request asks the controller, which may know
them.
"""

Query = TypeVar("Query")


class ControllerHandler(Handler):
    """Serves an API by calling the controller."""

    def __init__(self, environment: RequestEnvironment, controller: ControllerClient) -> None:
        super().__init__(environment)
        self.controller = controller


class PendingControllerRequest(BaseRequest[ControllerHandler], ABC, Generic[Query]):
    """Subclasses say what to ask (`request_of`), what an answer means (`fill_results`) and how it ends (`complete`)."""

    __slots__ = ("_asked", "_calls", "_deadline_ms", "_elements", "_request", "_revision", "throttle_ms")

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self._calls: deque[list[Query]] = deque()
        """Not sent yet."""
        self._elements = 0
        """Elements in the last of the calls."""
        self._asked: Sequence[Query] = ()
        self._request: ControllerRequest | None = None
        """The call that asks for them; None once it is answered."""
        self._deadline_ms = 0
        self._revision = -1
        """The revision that makes the answers true."""
        self.throttle_ms = 0
        """How long the client has to wait for its quota of mutations, in the response."""

    def add_query(self, query: Query, elements: int = 1) -> None:
        """Have this asked, by `send_calls`; `elements` is how much work it is to the controller."""
        if not self._calls or self._elements + elements > CALL_ELEMENTS_MAX:
            self._calls.append([])
            self._elements = 0
        self._calls[-1].append(query)
        self._elements += elements

    def may_mutate(self, mutations: int, strict_version: int) -> bool:
        """Charge this many new or deleted partitions to the client's quota (KIP-599). From `strict_version` on, return
        False if it has used up its quota, and it gets an error; an older client only has to wait.
        """
        quotas = self.connection.quotas
        if quotas is None:
            return True
        is_strict = self.header.api_version >= strict_version
        context, client_id = self.connection.context, self.header.client_id
        throttle_ms = quotas.mutate(context, client_id, mutations, is_strict=is_strict)
        self.throttle_ms = max(self.throttle_ms, throttle_ms)
        return not (is_strict and throttle_ms)

    @property
    def has_calls(self) -> bool:
        """Whether there is anything to send."""
        return len(self._calls) > 0

    def send_calls(self, timeout_ms: int) -> None:
        """Send the calls, and wait for `timeout_ms` at most; respond at once if there are none."""
        if not self._calls:
            self.complete()
            return
        handler = self.handler
        self._deadline_ms = handler.clock.now_ms + max(0, timeout_ms)
        handler.deadlines.schedule(self, self._deadline_ms + handler.config.deadline_grace_ms)
        self._ask_next()

    def _ask_next(self) -> None:
        handler = self.handler
        self._asked = self._calls.popleft()
        self._request = self.request_of(self._asked, max(0, self._deadline_ms - handler.clock.now_ms))
        handler.controller.call_controller(self, self._request)

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        if answer is None:
            self._record_lost_answer()
            self.complete()
            return
        if self._request is not None:
            audit = self.handler.authorizer.audit
            audit.change_answered(self.connection.context, self.header, self._request, answer)
            self._request = None
        self._revision = max(self._revision, self.fill_results(self._asked, answer))
        if self._calls:
            self._ask_next()
        else:
            self.handler.controller.await_revision(self, self._revision)

    def revision_applied(self) -> None:
        self.complete()

    def expire(self, now_ms: int) -> None:
        self.cancel()
        self.complete()

    def cancel(self) -> None:
        self._record_lost_answer()
        self._calls.clear()
        self.handler.controller.forget_asker(self)

    def _record_lost_answer(self) -> None:
        """The call that is outstanding has no answer that could be recorded: what it asked for may be done."""
        if self._request is not None:
            audit = self.handler.authorizer.audit
            audit.answer_lost(self.connection.context, self.header, self._request)
            self._request = None

    @abstractmethod
    def request_of(self, queries: Sequence[Query], timeout_ms: int) -> ControllerRequest:
        """Return the call for these."""

    @abstractmethod
    def fill_results(self, queries: Sequence[Query], answer: ControllerAnswer) -> int:
        """Put the answer to these into the response; return the revision that it names."""

    @abstractmethod
    def complete(self) -> None:
        """Respond: all that can be known is known. What was not answered is as it was before the calls."""
