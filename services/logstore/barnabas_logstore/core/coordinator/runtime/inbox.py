"""What processors ask of coordinators: it is checked, and waits here.

It has its own credit: heartbeats of groups never wait behind records, nor records behind rebalances.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from barnabas.channel.credits import CreditPool
from barnabas.channel.messages import CoordinateRequest, CoordinateResponse, GroupAnswer, GroupCall, GroupCollect
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.streams.request_times import RequestTimes, TimedRequest, api_name
from barnabas_logstore.core.streams.stream_handshake import StreamHandshake
from barnabas_logstore.core.streams.streams import CoordinateStream

ANSWER_BYTES_MAX: Final = 100 << 20
"""A larger answer is replaced by UNKNOWN_SERVER_ERROR. By Kafka's default, no request may be larger either."""
MESSAGE_BYTES_MAX: Final = 64 << 20
"""More answers than this are split into several messages; with the largest answer added, one still fits the channel
(256 MiB).
"""

ENDED_MAX: Final = 1_000
"""More of the calls that an unexpected exception has ended are not known any more when another answer comes."""

OWN_STREAM_ID: Final = -1
"""Of calls of this logstore's own coordinators, which need no stream."""


class CoordinateInbox:
    """All Coordinate streams, their calls in order, and the answers of this turn."""

    def __init__(self, handshake: StreamHandshake, credit_pool: CreditPool, times: RequestTimes) -> None:
        self._times = times
        self._handshake = handshake
        self._credits = credit_pool
        self._streams: dict[int, CoordinateStream] = {}
        self._waiting: deque[tuple[CoordinateStream, GroupCall | GroupCollect]] = deque()
        self._answered: dict[CoordinateStream, None] = {}
        self._ended: dict[tuple[int, int], None] = {}
        """Calls that an unexpected exception has ended, by stream and request id: they are answered, and a later answer
        to one, if there is any, is dropped. The oldest are forgotten.
        """
        self._own_calls: deque[GroupCall] = deque()
        self.own_answers: list[GroupAnswer] = []

    def __len__(self) -> int:
        """The number of waiting calls."""
        return len(self._waiting) + len(self._own_calls)

    def on_coordinate(self, stream_id: int, request: CoordinateRequest) -> None:
        """Process a message of a processor."""
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = CoordinateStream(stream_id)
        if stream.closed:
            return
        if request.hello is not None:
            welcome = self._handshake.greet(stream, request.hello)
            if welcome is None:
                return
            response = self._response(stream)
            response.welcome, response.credit = welcome, self._credits.open_stream(stream_id)
        count = len(request.calls) + len(request.collects)
        if not count:
            return
        byte_count = sum([len(call.body) for call in request.calls])
        if not (stream.greeted and self._credits.received(stream_id, count, byte_count)):
            self._handshake.refuse(stream)
            return
        self._waiting.extend([(stream, call) for call in request.calls])
        self._waiting.extend([(stream, collect) for collect in request.collects])
        if request.timed:
            self._time(stream, request)

    def add_own(self, call: GroupCall) -> None:
        """Add a call of this logstore's own coordinators; its answer is in `take_own_answers`."""
        self._own_calls.append(call)

    def take_own_call(self) -> GroupCall | None:
        return self._own_calls.popleft() if self._own_calls else None

    def take_own_answers(self) -> list[GroupAnswer]:
        if not self.own_answers:
            return []
        answers, self.own_answers = self.own_answers, []
        return answers

    def _time(self, stream: CoordinateStream, request: CoordinateRequest) -> None:
        now_us = self._times.read_us()
        names = {call.request_id: api_name(call.api_key) for call in request.calls}
        names |= {collect.request_id: api_name(collect.api_key) for collect in request.collects}
        for each in request.timed:
            if each.request_id in names:
                stream.timed[each.request_id] = TimedRequest(each, names[each.request_id], now_us)

    def on_stream_closed(self, stream_id: int) -> None:
        """Drop its calls that have not begun."""
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            stream.closed = True
            self._credits.close_stream(stream_id)

    def take_request(self) -> tuple[int, GroupCall | GroupCollect] | None:
        """Return the next call that is still wanted, with its stream's id; its credit is free from now on."""
        if self._own_calls:
            return OWN_STREAM_ID, self._own_calls.popleft()
        while self._waiting:
            stream, request = self._waiting.popleft()
            if stream.closed:
                continue
            stream.requests_handled += 1
            if isinstance(request, GroupCall):
                stream.bytes_handled += len(request.body)
            self._response(stream)
            timed = stream.timed.get(request.request_id)
            if timed is not None:
                timed.begun_us = self._times.read_us()
            return stream.stream_id, request
        return None

    def answer(self, answers: Iterable[tuple[int, GroupAnswer]]) -> None:
        """Add an answer by stream id; closed streams get none."""
        for stream_id, answer in answers:
            stream = self._streams.get(stream_id)
            if stream_id == OWN_STREAM_ID:
                self.own_answers.append(answer)
            elif stream is not None:
                if self._ended and (stream_id, answer.request_id) in self._ended:
                    del self._ended[stream_id, answer.request_id]
                    continue
                if len(answer.body) > ANSWER_BYTES_MAX:
                    # It would break the channel, and with it every call on it.
                    answer = GroupAnswer(answer.request_id, ErrorCode.UNKNOWN_SERVER_ERROR)
                self._response(stream).answers.append(answer)

    def end_call(self, stream_id: int, request_id: int) -> None:
        """Answer a call that an unexpected exception has ended, unless it is answered."""
        answer = GroupAnswer(request_id, ErrorCode.UNKNOWN_SERVER_ERROR)
        if stream_id == OWN_STREAM_ID:
            self.own_answers.append(answer)
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        response = self._response(stream)
        if not any(each.request_id == request_id for each in response.answers):
            response.answers.append(answer)
        self._ended[stream_id, request_id] = None
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def _response(self, stream: CoordinateStream) -> CoordinateResponse:
        response = stream.response
        if response is None:
            response = stream.response = CoordinateResponse()
            self._answered[stream] = None
        return response

    def take_responses(self) -> Sequence[tuple[int, CoordinateResponse]]:
        """Return one message per stream with something to send, or more if it is large; including credit."""
        if not self._answered:
            return ()
        responses: list[tuple[int, CoordinateResponse]] = []
        for stream in self._answered:
            response, stream.response = stream.response, None
            if stream.closed or response is None:
                continue
            self._credits.handled(stream.stream_id, stream.requests_handled, stream.bytes_handled)
            stream.requests_handled = stream.bytes_handled = 0
            if response.credit is None:
                response.credit = self._credits.grants_due(stream.stream_id)
            if stream.timed:
                request_ids = [answer.request_id for answer in response.answers]
                response.times = self._times.answered(stream.timed, request_ids)
            if response != _NOTHING:
                responses += [(stream.stream_id, message) for message in _messages(response)]
        self._answered.clear()
        return responses


_NOTHING = CoordinateResponse()


def _messages(response: CoordinateResponse) -> Iterator[CoordinateResponse]:
    """The same in messages that are not too large, its answers in their order."""
    byte_count = sum([len(answer.body) for answer in response.answers])
    if byte_count > MESSAGE_BYTES_MAX:
        answers, response.answers, byte_count = response.answers, [], 0
        for answer in answers:
            if byte_count > MESSAGE_BYTES_MAX:
                yield response
                response, byte_count = CoordinateResponse(), 0
            response.answers.append(answer)
            byte_count += len(answer.body)
    yield response
