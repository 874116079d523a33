"""Calls to logstores for Kafka's administrative APIs: which are under way, which wait for their turn.

A logstore has few of one processor's calls at a time, so that many clients can't take the places of all; the others
wait in line. Each kind of request has a line of its own: a DeleteRecords may take as long as its client has patience,
and consumers that look for the end of an epoch must not wait behind it. A call ends once: by an answer, with its
logstore's stream, or because nobody waits for it any more.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol, TypeAlias

from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.model.outputs import LogstoreCall
from barnabas_gateway.core.timing.request_timing import RequestTiming

CALLS_UNDER_WAY_MAX: Final = 8
"""Of one kind, from this processor to one logstore."""


class LogstoreAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None:
        """Where the request is timed that asks."""

    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        """The answer, or None: it was lost, and what was asked for may have been done."""


class _Line:
    """The calls of one kind to one logstore."""

    __slots__ = ("under_way", "waiting")

    def __init__(self) -> None:
        self.under_way: dict[int, LogstoreCall] = {}
        """Sent and not answered, by call id."""
        self.waiting: deque[LogstoreCall] = deque()


_LineKey: TypeAlias = tuple[int, type[AdministrationRequest]]


class LogstoreAdminClient:
    __slots__ = ("_askers", "_calls", "_cancels", "_lines", "_logstores", "_next_call_id")

    def __init__(self, logstores: Logstores) -> None:
        self._logstores = logstores
        self._askers: dict[int, tuple[LogstoreAsker, LogstoreCall]] = {}
        """Of every call that is not over, by its id."""
        self._lines: dict[_LineKey, _Line] = {}
        self._next_call_id = 1
        self._calls: list[LogstoreCall] = []
        """This turn's; likewise the next."""
        self._cancels: list[int] = []

    def call(
        self, asker: LogstoreAsker, node_id: int, request: AdministrationRequest, timeout_ms: int
    ) -> LogstoreCall | None:
        """Ask a logstore, now or as soon as it has room; None: it can't be reached, and certainly nothing is done.

        `timeout_ms` counts from when the call is sent; whoever needs an end before that sets a deadline and forgets.
        """
        logstore = self._logstores.get(node_id)
        if logstore is None or not logstore.exchange_is_up:
            return None
        call = LogstoreCall(self._next_call_id, node_id, request, timeout_ms)
        self._next_call_id += 1
        self._askers[call.call_id] = (asker, call)
        line = self._line_of(call)
        if len(line.under_way) < CALLS_UNDER_WAY_MAX:
            self._send(line, call)
        else:
            line.waiting.append(call)
        return call

    def _line_of(self, call: LogstoreCall) -> _Line:
        return self._lines.setdefault((call.node_id, type(call.request)), _Line())

    def _send(self, line: _Line, call: LogstoreCall) -> None:
        line.under_way[call.call_id] = call
        self._calls.append(call)
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
            # Its time at the logstore is not told: all of it is the channel's.
            timing.answered(0, 0)
        asker.logstore_answered(call, answer)
        if timing is not None:
            timing.still_waits()

    def forget_call(self, call: LogstoreCall) -> None:
        """Nobody waits for it any more. If it was sent, it may be done all the same."""
        if self._askers.pop(call.call_id, None) is not None and self._leave(call):
            self._cancels.append(call.call_id)

    def _leave(self, call: LogstoreCall) -> bool:
        """Make room for the next in line; whether the call had been sent."""
        line = self._line_of(call)
        if line.under_way.pop(call.call_id, None) is None:
            line.waiting.remove(call)
            return False
        if line.waiting:
            self._send(line, line.waiting.popleft())
        return True

    def stream_lost(self, node_id: int) -> None:
        """Its process is gone or silent: nobody is kept waiting for the answers."""
        lines = [self._lines.pop(key) for key in [key for key in self._lines if key[0] == node_id]]
        calls = [call for line in lines for call in (*line.under_way.values(), *line.waiting)]
        self._cancels.extend(call_id for line in lines for call_id in line.under_way)
        for asker, call in [self._askers.pop(call.call_id) for call in calls]:
            asker.logstore_answered(call, None)

    def take_calls(self) -> list[LogstoreCall]:
        calls, self._calls = self._calls, []
        return calls

    def take_cancels(self) -> list[int]:
        cancels, self._cancels = self._cancels, []
        return cancels
