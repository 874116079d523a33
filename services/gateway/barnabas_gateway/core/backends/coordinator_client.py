"""Calls to the coordinators of groups: one stream to each logstore, the credit on it, what is in flight, what waits.

A call spends a request of the credit and the bytes of its body, or waits in line at its logstore. All that a turn has
for one logstore leaves in one message. Each call ends once: by an answer, with its stream, or because nobody waits for
it any more. Nothing is sent twice here: a call that was lost may have been done, and its asker decides.

A message costs both sides a hundred microseconds and more, and a call a tenth of that. So where many come, they gather
over turns. Heartbeats have seconds: `HEARTBEAT_GATHER_MS` at most, or until there is anything else to go along with.
Other calls gather for `CALL_GATHER_MS` at most, and only while they come from clients of whom many wait for their
answers at once: those are asked together, so they are answered together, and ask together again. Where few come or
wait, they go at once.
"""

from __future__ import annotations

from typing import Final, Protocol

from barnabas.channel.messages import CoordinateRequest, CoordinateResponse, GroupAnswer, GroupCall, GroupCollect
from barnabas.wire.api_keys import ApiKey
from barnabas_gateway.core.backends.credited_stream import CreditedStream
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.timing.request_timing import RequestTiming, timed_of

HEARTBEAT_GATHER_MS: Final = 10
CALL_GATHER_MS: Final = 3
GATHER_CALLS_MAX: Final = 32
"""As many as a logstore takes in one step."""
GATHER_OUTSTANDING_MIN: Final = 8
"""With fewer unanswered a client had better not wait for the others."""
GATHER_WINDOW_MS: Final = 200
GATHER_HEARTBEATS_MIN: Final = 40
"""In one window, for those of the next to gather: with fewer a message has little more than one anyway."""


class CoordinatorAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None:
        """Where the request is timed that asks."""

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None: ...

    def group_lost(self, ask: PendingAsk) -> None:
        """The stream is gone. What was not sent is certainly not done."""


class PendingAsk:
    """A call, or the collection of what a member has waited for, on its way."""

    __slots__ = ("asker", "message", "node_id", "request_id")

    def __init__(self, asker: CoordinatorAsker, node_id: int, message: GroupCall | GroupCollect) -> None:
        self.asker = asker
        self.node_id = node_id
        self.request_id = message.request_id
        self.message: GroupCall | GroupCollect | None = message
        """None once it is sent: its body may be large."""

    @property
    def body_bytes(self) -> int:
        """What it costs of the credit, beside a request, until it is sent."""
        message = self.message
        return len(message.body) if isinstance(message, GroupCall) else 0

    @property
    def was_sent(self) -> bool:
        return self.message is None


class _Stream(CreditedStream[PendingAsk, PendingAsk]):
    __slots__ = (
        "_gathers",
        "_heartbeats_in_window",
        "_outstanding_before",
        "_outstanding_in_window",
        "_window_until_ms",
        "gather_until_ms",
        "is_up",
        "is_urgent",
        "leaving",
        "message",
        "node_id",
    )

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self.node_id = node_id
        self.is_up = False
        self.message: CoordinateRequest | None = None
        """The next, made when there is something to put into it."""
        self.leaving: list[RequestTiming] = []
        """Timed requests in it."""
        self.is_urgent = False
        """There is more than heartbeats in it."""
        self.gather_until_ms = -1
        """When it goes at the latest; -1 while it is not held back."""
        self._gathers = False
        self._heartbeats_in_window = 0
        self._outstanding_before = 0
        self._outstanding_in_window = 0
        """So many calls, heartbeats aside, were unanswered at a time, at most; `before`: in the window before."""
        self._window_until_ms = 0

    def gathers(self, message: CoordinateRequest, now_ms: int) -> bool:
        """Whether `message` had better wait for more."""
        self._look_at_window(now_ms)
        gathered = len(message.calls) + len(message.collects)
        if gathered >= GATHER_CALLS_MAX:
            return False
        if self.is_urgent:
            expected = max(self._outstanding_before, self._outstanding_in_window)
            if expected < GATHER_OUTSTANDING_MIN or 4 * gathered >= 3 * expected:
                return False
            until_ms = now_ms + CALL_GATHER_MS
        elif self._gathers:
            until_ms = now_ms + HEARTBEAT_GATHER_MS
        else:
            return False
        if self.gather_until_ms < 0 or until_ms < self.gather_until_ms:
            self.gather_until_ms = until_ms
        return now_ms < self.gather_until_ms

    def _look_at_window(self, now_ms: int) -> None:
        """What the window before this one tells of how much comes."""
        if self.is_urgent:
            self._outstanding_in_window = max(self._outstanding_in_window, len(self.in_flight))
        if now_ms < self._window_until_ms:
            return
        is_next = now_ms < self._window_until_ms + GATHER_WINDOW_MS
        self._gathers = is_next and self._heartbeats_in_window >= GATHER_HEARTBEATS_MIN
        self._heartbeats_in_window = 0
        self._outstanding_before = self._outstanding_in_window if is_next else 0
        self._outstanding_in_window = 0
        self._window_until_ms = now_ms + GATHER_WINDOW_MS

    def add_message(self, message: GroupCall | GroupCollect) -> bool:
        """Into the next message; whether that is begun by it."""
        is_first = self.message is None
        if self.message is None:
            self.message = CoordinateRequest()
        if isinstance(message, GroupCall):
            self.message.calls.append(message)
            if message.api_key == ApiKey.HEARTBEAT:
                self._heartbeats_in_window += 1
            else:
                self.is_urgent = True
        else:
            self.message.collects.append(message)
            self.is_urgent = True
        return is_first

    def take_message(self) -> CoordinateRequest | None:
        message, self.message = self.message, None
        self.is_urgent, self.gather_until_ms = False, -1
        self.leaving = []
        return message


class CoordinatorClient:
    __slots__ = ("_logstores", "_sending", "_streams")

    def __init__(self, logstores: Logstores) -> None:
        """`logstores` numbers the requests."""
        self._logstores = logstores
        self._streams: dict[int, _Stream] = {}
        self._sending: list[_Stream] = []

    def submit(self, asker: CoordinatorAsker, node_id: int, message: GroupCall | GroupCollect) -> PendingAsk | None:
        """Ask that logstore, now or when there is credit; None: there is no stream to it, and nothing will be asked.

        The request id is given here.
        """
        stream = self._streams.get(node_id)
        if stream is None or not stream.is_up:
            return None
        message.request_id = self._logstores.take_request_id()
        ask = PendingAsk(asker, node_id, message)
        if stream.try_enter(ask, ask.body_bytes):
            self._send(stream, ask)
        return ask

    def _send(self, stream: _Stream, ask: PendingAsk) -> None:
        message = ask.message
        assert message is not None, "what waits has not been sent"
        if stream.add_message(message):
            self._sending.append(stream)
        stream.in_flight[ask.request_id] = ask
        ask.message = None
        timing = ask.asker.timing
        if timing is not None and stream.message is not None:
            stream.message.timed.append(timed_of(ask.request_id, timing))
            stream.leaving.append(timing)

    def forget_call(self, ask: PendingAsk) -> None:
        """Nobody waits for it any more. If it was sent, it may be done all the same."""
        stream = self._streams[ask.node_id]
        if stream.in_flight.pop(ask.request_id, None) is None:
            stream.leave_line(ask)

    def stream_up(self, node_id: int) -> None:
        self._streams.setdefault(node_id, _Stream(node_id)).is_up = True

    def stream_lost(self, node_id: int) -> None:
        stream = self._streams.get(node_id)
        if stream is None:
            return
        stream.is_up = False
        stream.credit.reset()
        if stream.take_message() is not None:
            self._sending.remove(stream)
        in_flight, waiting = stream.lose()
        for ask in (*in_flight, *waiting):
            ask.asker.group_lost(ask)

    def response_received(self, node_id: int, response: CoordinateResponse) -> None:
        stream = self._streams[node_id]
        in_flight = stream.in_flight
        noted = []
        for times in response.times:
            timed = in_flight.get(times.request_id)
            if timed is not None and timed.asker.timing is not None:
                timed.asker.timing.answered(times.queue_us, times.work_us)
                noted.append(timed.asker.timing)
        for answer in response.answers:
            ask = in_flight.pop(answer.request_id, None)
            if ask is not None:
                ask.asker.group_answered(ask, answer)
        for timing in noted:
            timing.still_waits()
        if response.credit is not None:
            stream.credit.grant(response.credit)
            for ask in stream.admit(_bytes_of):
                self._send(stream, ask)

    def take_messages(self, now_ms: int) -> list[tuple[int, CoordinateRequest]]:
        taken = []
        gathering = []
        for stream in self._sending:
            message = stream.message
            assert message is not None, "what is sent has been begun"
            if stream.gathers(message, now_ms):
                gathering.append(stream)
            else:
                taken.append((stream.node_id, message))
                for timing in stream.leaving:
                    timing.sent()
                stream.take_message()
        self._sending = gathering
        return taken

    def gather_until_ms(self) -> int | None:
        """When the first message that is held back goes at the latest."""
        return min((stream.gather_until_ms for stream in self._sending), default=None)


def _bytes_of(ask: PendingAsk) -> int:
    return ask.body_bytes
