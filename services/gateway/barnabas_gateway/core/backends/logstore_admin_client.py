"""Calls to logstores for Kafka's administrative APIs: calls in flight, and calls that wait.

A logstore has only a few calls of one processor at a time, so that many clients can't use up its capacity; the others
wait in a queue. Each kind of request has its own queue: a DeleteRecords may take as long as its client waits, and
consumers that look for the end of an epoch must not wait behind it. A call ends once: with an answer, with its
logstore's stream, or because its caller does not wait any more.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol, TypeAlias

from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.outputs import LogstoreCall, Turn
from barnabas_gateway.core.timing.request_timing import RequestTiming

CALLS_UNDER_WAY_MAX: Final = 8
"""Maximum calls in flight of one kind, from this processor to one logstore."""


class LogstoreAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None:
        """The timing of the request that makes the call."""

    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        """The answer, or None: it was lost, and the request may have been carried out. If the request failed while it
        made the call, it does not know it.
        """

    def failed(self, error: Exception) -> None:
        """An answer has met an unexpected exception."""


class _Line:
    """The calls of one kind to one logstore."""

    __slots__ = ("under_way", "waiting")

    def __init__(self) -> None:
        self.under_way: dict[int, LogstoreCall] = {}
        """Calls that were sent and not answered, by call id."""
        self.waiting: deque[LogstoreCall] = deque()


_LineKey: TypeAlias = tuple[int, type[AdministrationRequest]]


class LogstoreAdminClient:
    __slots__ = ("_askers", "_lines", "_logstores", "_next_call_id", "_turn")

    def __init__(self, logstores: Logstores, turn: Turn) -> None:
        self._logstores = logstores
        self._turn = turn
        self._askers: dict[int, tuple[LogstoreAsker, LogstoreCall]] = {}
        """The queue of every call that has not ended, by call id."""
        self._lines: dict[_LineKey, _Line] = {}
        self._next_call_id = 1

    def call_logstore(
        self, asker: LogstoreAsker, node_id: int, request: AdministrationRequest, timeout_ms: int
    ) -> LogstoreCall | None:
        """Send a call to a logstore, now or when others have ended; None: it can't be reached, and certainly nothing is
        done.

        `timeout_ms` counts from when the call is sent; a caller that needs an earlier end sets a deadline and forgets
        the call.
        """
        logstore = self._logstores.find_logstore(node_id)
        if logstore is None or not logstore.exchange_is_up:
            return None
        call = LogstoreCall(self._next_call_id, node_id, request, timeout_ms)
        self._next_call_id += 1
        self._askers[call.call_id] = (asker, call)
        try:
            line = self._line_of(call)
            if len(line.under_way) < CALLS_UNDER_WAY_MAX:
                self._send(line, call)
            else:
                line.waiting.append(call)
        except Exception:
            # Its caller does not know of it, and can't forget it.
            self.forget_call(call)
            raise
        return call

    def _line_of(self, call: LogstoreCall) -> _Line:
        return self._lines.setdefault((call.node_id, type(call.request)), _Line())

    def _send(self, line: _Line, call: LogstoreCall) -> None:
        line.under_way[call.call_id] = call
        self._turn.rare.logstore_calls.append(call)
        asker, _ = self._askers[call.call_id]
        if asker.timing is not None:
            asker.timing.sent()

    def call_answered(self, call_id: int, answer: AdministrationResponse | None) -> None:
        asked = self._askers.pop(call_id, None)
        if asked is None:
            return
        asker, call = asked
        self._leave(call)
        timing = asker.timing
        if timing is not None:
            # The logstore does not report its time: all of it counts as the channel's.
            timing.answered(0, 0)
        try:
            asker.logstore_answered(call, answer)
        except Exception as error:
            end_by(asker, error)
        if timing is not None:
            timing.still_waits()

    def forget_call(self, call: LogstoreCall) -> None:
        """The caller does not wait any more. If the call was sent, it may still be done."""
        if self._askers.pop(call.call_id, None) is not None and self._leave(call):
            self._turn.rare.logstore_cancels.append(call.call_id)

    def _leave(self, call: LogstoreCall) -> bool:
        """Remove the call, so that the next in the queue is sent. Return whether it had been sent."""
        line = self._line_of(call)
        if line.under_way.pop(call.call_id, None) is None:
            if call in line.waiting:
                line.waiting.remove(call)
            return False
        if line.waiting:
            self._send(line, line.waiting.popleft())
        return True

    def stream_lost(self, node_id: int) -> None:
        """The logstore's process is gone or silent: end all waits for its answers."""
        lines = [self._lines.pop(key) for key in [key for key in self._lines if key[0] == node_id]]
        calls = [call for line in lines for call in (*line.under_way.values(), *line.waiting)]
        self._turn.rare.logstore_cancels.extend(call_id for line in lines for call_id in line.under_way)
        for asked in [self._askers.pop(call.call_id, None) for call in calls]:
            if asked is not None:
                asker, call = asked
                try:
                    asker.logstore_answered(call, None)
                except Exception as error:
                    end_by(asker, error)
