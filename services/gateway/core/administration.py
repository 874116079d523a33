"""Calls to logstores for Kafka's administrative APIs: which are under way, which wait for their turn.

A logstore has few of one processor's calls at a time, so that many clients can't take the places of all; the others
wait in line. A call ends once: by an answer, with its logstore's stream, or because nobody waits for it any more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from services.gateway.core.effects import LogstoreCall

if TYPE_CHECKING:
    from services.gateway.core.processor import Processor

CALLS_UNDER_WAY_MAX: Final = 32
"""Of this processor at one logstore."""


class Asker(Protocol):
    def logstore_answered(self, call: LogstoreCall, answer: AdministrationResponse | None) -> None:
        """The answer, or None: it was lost, and what was asked for may have been done."""


class _Line:
    """The calls to one logstore."""

    __slots__ = ("under_way", "waiting")

    def __init__(self) -> None:
        self.under_way: dict[int, LogstoreCall] = {}
        self.waiting: deque[LogstoreCall] = deque()


class AdministrationRoom:
    __slots__ = ("_askers", "_calls", "_cancels", "_lines", "_logstores", "_next_call_id")

    def __init__(self, processor: Processor) -> None:
        self._logstores = processor.logstores
        self._askers: dict[int, Asker] = {}
        """Of every call that somebody waits for, by call id."""
        self._lines: dict[int, _Line] = {}
        """By node id."""
        self._next_call_id = 1
        self._calls: list[LogstoreCall] = []
        """This turn's; likewise the next."""
        self._cancels: list[int] = []

    def call(self, asker: Asker, node_id: int, request: AdministrationRequest, timeout_ms: int) -> LogstoreCall | None:
        """Ask a logstore, now or as soon as it has room; None: it can't be reached, and certainly nothing is done.

        `timeout_ms` counts from when the call is sent; whoever needs an end before that sets a deadline and forgets.
        """
        logstore = self._logstores.get(node_id)
        if logstore is None or not logstore.exchange_is_up:
            return None
        call = LogstoreCall(self._next_call_id, node_id, request, timeout_ms)
        self._next_call_id += 1
        self._askers[call.call_id] = asker
        line = self._lines.setdefault(node_id, _Line())
        if len(line.under_way) < CALLS_UNDER_WAY_MAX:
            self._send(line, call)
        else:
            line.waiting.append(call)
        return call

    def _send(self, line: _Line, call: LogstoreCall) -> None:
        line.under_way[call.call_id] = call
        self._calls.append(call)

    def answered(self, node_id: int, call_id: int, answer: AdministrationResponse | None) -> None:
        line = self._lines.get(node_id)
        call = None if line is None else line.under_way.pop(call_id, None)
        if line is None or call is None:
            return
        self._refill(line)
        asker = self._askers.pop(call_id, None)
        if asker is not None:
            asker.logstore_answered(call, answer)

    def _refill(self, line: _Line) -> None:
        while line.waiting and len(line.under_way) < CALLS_UNDER_WAY_MAX:
            self._send(line, line.waiting.popleft())

    def stream_lost(self, node_id: int) -> None:
        """Its process is gone or silent: nobody is kept waiting for the answers."""
        line = self._lines.pop(node_id, None)
        if line is None:
            return
        self._cancels.extend(line.under_way)
        for call in (*line.under_way.values(), *line.waiting):
            asker = self._askers.pop(call.call_id, None)
            if asker is not None:
                asker.logstore_answered(call, None)

    def forget(self, call: LogstoreCall) -> None:
        """Nobody waits for it any more. If it was sent, it may be done all the same."""
        if self._askers.pop(call.call_id, None) is None:
            return
        line = self._lines[call.node_id]
        if line.under_way.pop(call.call_id, None) is None:
            line.waiting.remove(call)
        else:
            self._cancels.append(call.call_id)
            self._refill(line)

    def take_calls(self) -> list[LogstoreCall]:
        calls, self._calls = self._calls, []
        return calls

    def take_cancels(self) -> list[int]:
        cancels, self._cancels = self._cancels, []
        return cancels
