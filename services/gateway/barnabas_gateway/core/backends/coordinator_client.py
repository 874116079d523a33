"""Calls to group coordinators: one stream to each logstore, with its credit, calls in flight and calls waiting.

A call spends a request of the credit and the bytes of its body, or waits in the queue of its logstore. All calls of a
turn to one logstore leave in one message. Each call ends once: with an answer, with its stream, or because its caller
does not wait any more. Nothing is sent twice here: a lost call may have been done, and the caller decides.

A message costs both sides a hundred microseconds and more, and a call a tenth of that. So when there are many calls,
they are batched over turns. Heartbeats may wait for seconds: up to `HEARTBEAT_GATHER_MS`, or until another call is
sent. Other calls are batched for up to `CALL_GATHER_MS`, and only while many clients wait for their answers at once:
then they are sent together, so they are answered together, and come together again. When few come or wait, they are
sent at once.
"""

from __future__ import annotations

from typing import Final, Protocol

from barnabas.channel.messages import CoordinateRequest, CoordinateResponse, GroupAnswer, GroupCall, GroupCollect
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.wire.api_keys import ApiKey
from barnabas_gateway.core.backends.credited_stream import MessageStream
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.timing.request_timing import RequestTiming, timed_of

HEARTBEAT_GATHER_MS: Final = 50
"""A member sends one each 3 s and learns nothing from it but that its group rebalances."""
CALL_GATHER_MS: Final = 3
GATHER_CALLS_MAX: Final = 32
"""As many as a logstore processes in one step."""
GATHER_OUTSTANDING_MIN: Final = 8
"""With fewer unanswered calls, waiting for others does not pay for a client."""
GATHER_WINDOW_MS: Final = 200
GATHER_HEARTBEATS_MIN: Final = 4
"""Heartbeats in one window from which those of the next are batched: with fewer, a message has hardly two."""


class CoordinatorAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None:
        """The timing of the request that makes the call."""

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None: ...

    def group_lost(self, ask: PendingAsk) -> None:
        """The stream is lost. What was not sent is certainly not done."""

    def failed(self, error: Exception) -> None:
        """An answer has met an unexpected exception."""


class PendingAsk:
    """A call, or the collection of the result that a member has waited for, in progress."""

    __slots__ = ("asker", "message", "node_id", "request_id")

    def __init__(self, asker: CoordinatorAsker, node_id: int, message: GroupCall | GroupCollect) -> None:
        self.asker = asker
        self.node_id = node_id
        self.request_id = message.request_id
        self.message: GroupCall | GroupCollect | None = message
        """None once it is sent: its body may be large."""

    @property
    def body_bytes(self) -> int:
        """The bytes that it costs of the credit, besides a request, until it is sent."""
        message = self.message
        return len(message.body) if isinstance(message, GroupCall) else 0

    @property
    def was_sent(self) -> bool:
        return self.message is None


class _Stream(MessageStream[PendingAsk, PendingAsk, CoordinateRequest]):
    __slots__ = (
        "_gathers",
        "_heartbeats_in_window",
        "_outstanding_before",
        "_outstanding_in_window",
        "_window_until_ms",
        "gather_until_ms",
        "is_urgent",
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.is_urgent = False
        """Whether the next message has more than heartbeats."""
        self.gather_until_ms = -1
        """When the next message is sent at the latest; -1 while it is not held back."""
        self._gathers = False
        self._heartbeats_in_window = 0
        self._outstanding_before = 0
        self._outstanding_in_window = 0
        """The maximum number of calls unanswered at a time, without heartbeats; `before`: in the previous window."""
        self._window_until_ms = 0

    def gathers(self, message: CoordinateRequest, now_ms: int) -> bool:
        """Whether `message` should wait for more."""
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
        """Estimate from the previous window how much comes."""
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

    def add_message(self, message: GroupCall | GroupCollect) -> None:
        """Add to the next message."""
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

    def take_message(self) -> CoordinateRequest | None:
        self.is_urgent, self.gather_until_ms = False, -1
        return super().take_message()

    def lose(self) -> tuple[list[PendingAsk], list[PendingAsk]]:
        self.is_urgent, self.gather_until_ms = False, -1
        return super().lose()


class CoordinatorClient:
    __slots__ = ("_logstores", "_streams", "sending")

    def __init__(self, logstores: Logstores) -> None:
        """`logstores` numbers the requests."""
        self._logstores = logstores
        self._streams: dict[int, _Stream] = {}
        self.sending: list[_Stream] = []
        """Those with a message that has not left, and one whose first call failed before it was added."""

    def submit_ask(self, asker: CoordinatorAsker, node_id: int, message: GroupCall | GroupCollect) -> PendingAsk | None:
        """Send a call to that logstore, now or when there is credit; None: there is no stream to it, and nothing will
        be sent.

        The request id is assigned here.
        """
        stream = self._streams.get(node_id)
        if stream is None or not stream.is_up:
            return None
        message.request_id = next(self._logstores.request_ids)
        ask = PendingAsk(asker, node_id, message)
        if stream.try_enter(ask, ask.body_bytes):
            self._send(stream, ask)
        return ask

    def _send(self, stream: _Stream, ask: PendingAsk) -> None:
        message = ask.message
        assert message is not None, "what waits has not been sent"
        # Before anything that may fail: a message that has begun leaves, and what is in flight can be forgotten.
        if stream.message is None and stream not in self.sending:
            self.sending.append(stream)
        stream.in_flight[ask.request_id] = ask
        stream.add_message(message)
        ask.message = None
        timing = ask.asker.timing
        if timing is not None and stream.message is not None:
            stream.message.timed.append(timed_of(ask.request_id, timing))
            stream.leaving.append(timing)

    def forget_call(self, ask: PendingAsk) -> None:
        """The caller does not wait any more. If the call was sent, it may still be done."""
        stream = self._streams[ask.node_id]
        if stream.in_flight.pop(ask.request_id, None) is None:
            stream.leave_line(ask)

    def stream_up(self, node_id: int) -> None:
        self._streams.setdefault(node_id, _Stream(node_id)).is_up = True

    def stream_lost(self, node_id: int) -> None:
        stream = self._streams.get(node_id)
        if stream is None:
            return
        if stream in self.sending:
            self.sending.remove(stream)
        in_flight, waiting = stream.lose()
        for ask in (*in_flight, *waiting):
            try:
                ask.asker.group_lost(ask)
            except Exception as error:
                end_by(ask.asker, error)

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
                try:
                    ask.asker.group_answered(ask, answer)
                except MalformedMessage:
                    raise  # the host closes the stream
                except Exception as error:
                    end_by(ask.asker, error)
        for timing in noted:
            timing.still_waits()
        if response.credit is not None:
            stream.credit.grant(response.credit)
            for ask in stream.admit(_bytes_of):
                self._send(stream, ask)

    def take_messages(self, now_ms: int) -> list[tuple[int, CoordinateRequest]]:
        taken = []
        gathering = []
        for stream in self.sending:
            message = stream.message
            if message is None:
                continue  # its first call failed before it was added
            if stream.gathers(message, now_ms):
                gathering.append(stream)
            else:
                taken.append((stream.node_id, message))
                stream.take_message()
        self.sending = gathering
        return taken

    def gather_until_ms(self) -> int | None:
        """When the first message that is held back is sent at the latest."""
        return min((stream.gather_until_ms for stream in self.sending), default=None)


def _bytes_of(ask: PendingAsk) -> int:
    return ask.body_bytes
