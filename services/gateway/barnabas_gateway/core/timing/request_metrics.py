"""Metrics of requests: counts of all of them, times of some.

A request costs this processor about ten microseconds, and timing one takes twenty. So a request of an API and version
is timed when the last timed one is answered and few others have arrived meanwhile, which is so while clients wait for
each response, and `TIMED_AGAIN_US` have passed since; otherwise 1 in `TIMED_EVERY`. So rare requests are all timed, and
a client that sends its next request at once does not pay for it with each. The decision to time a request is made
before its duration is known, so timed requests are a fair sample.

A traced request is timed too: every `traces_sample_every`-th of its API and version.

Histograms are kept without zeros: hops in which a request spent no time are filled in when samples are read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from barnabas.channel.timing import Times
from barnabas.metrics.histogram import Histogram
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import Response
from barnabas.wire.primitives import Buffer, Steps
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import LogLevel, Trace
from barnabas_gateway.core.timing.hops import HOP_NAMES, Hop
from barnabas_gateway.core.timing.request_counts import ApiMetrics, RequestKind
from barnabas_gateway.core.timing.request_timing import RequestTiming, TimedRequest
from barnabas_gateway.core.timing.response_errors import error_codes, error_codes_in_steps, error_codes_of_body

TIMED_EVERY: Final = 256
TIMED_AGAIN_US: Final = 10_000
"""So long after a timed request of the same API and version began, the next one may be timed however few others there
are."""
LOOK_AGAIN_AFTER: Final = 8
"""Requests until it is looked whether that time has passed."""
OVERTAKEN_BY_MAX: Final = 4
"""Requests that have arrived since a timed one began: if more have, the next to be timed is `TIMED_EVERY` away."""


class RequestMetrics:
    """`RequestMeter` turns it into samples, for the host's scrapes."""

    __slots__ = (
        "_config",
        "_log_lines",
        "_random_bytes",
        "_trace_every",
        "apis",
        "kinds",
        "read_us",
        "sending",
        "traces",
    )

    def __init__(
        self,
        config: GatewayConfig,
        log_lines: LogLineBuffer,
        versions: Mapping[int, tuple[int, int]],
        read_us: Callable[[], int],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`versions` has the first and the last supported version, by API key. `read_us` is monotonic; `random_bytes`
        makes the ids of traces.
        """
        self._config = config
        self._log_lines = log_lines
        self._random_bytes = random_bytes
        self.read_us = read_us
        self._trace_every = config.traces_sample_every or sys.maxsize
        self.apis: dict[int, ApiMetrics] = {}
        """By API key."""
        self.kinds: dict[int, RequestKind] = {}
        """By API key and version, as `kind_key` encodes them."""
        self.sending: list[RequestTiming] = []
        """Timed requests whose responses the sockets have not accepted completely."""
        self.traces: list[RequestTiming] = []
        """Finished traces, for the host to take."""
        for api_key, (version_min, version_max) in versions.items():
            is_fetch = api_key == ApiKey.FETCH
            api = self.apis[api_key] = ApiMetrics("FetchConsumer" if is_fetch else ApiKey(api_key).api_name)
            for version in range(version_min, version_max + 1):
                kind = RequestKind(api, version, min(self._trace_every, sys.maxsize))
                kind.time_at = 0 if config.metrics_enable else sys.maxsize
                api.kinds.append(kind)
                self.kinds[kind_key(api_key, version)] = kind

    # --- a timed request ---

    def start_timing(self, kind: RequestKind, pending: TimedRequest, arrived_us: int) -> None:
        """Time this request, which is about to start, if it is time; `arrived_us` is -1 if it has just arrived."""
        now_us = self.read_us()
        number = kind.requests
        time_at = min(kind.timed_last + TIMED_EVERY, kind.trace_at)
        if now_us < kind.time_from_us and number < time_at:
            kind.time_at = min(number + LOOK_AGAIN_AFTER, time_at)
            return
        kind.time_from_us = now_us + TIMED_AGAIN_US
        kind.timed_last = number
        timing = RequestTiming(kind, pending, now_us if arrived_us < 0 else arrived_us, self.read_us)
        pending.timing = timing
        if number >= kind.trace_at:
            kind.trace_at = number + self._trace_every
            timing.trace = Trace(self._random_bytes(16), self._random_bytes(8))
        kind.time_at = min(number + TIMED_EVERY, kind.trace_at)
        kind.timed += 1
        kind.api.times.request_bytes.add(pending.frame_bytes)
        timing.enter(Hop.GATEWAY)

    def leaves(self, timing: RequestTiming) -> None:
        """Its response is among what is written to its connection in this turn."""
        timing.enter(Hop.RESPONSE_SEND)
        timing.pending.buffers = None
        self.sending.append(timing)

    def turn_taken(self) -> None:
        """What was to be written in this turn has been handed to the host."""
        for timing in self.sending:
            if timing.sent_position < 0:
                timing.sent_position = timing.pending.connection.written_bytes

    def turn_over(self) -> None:
        """The sockets have accepted what they could."""
        sending, self.sending = self.sending, []
        for timing in sending:
            connection = timing.pending.connection
            taken = connection.written_bytes - connection.unsent_bytes
            if connection.is_closed or 0 <= timing.sent_position <= taken:
                self.finish_timing(timing)
            else:
                self.sending.append(timing)

    def finish_timing(self, timing: RequestTiming) -> None:
        """Its response is sent, or it has none."""
        ended_us = timing.enter(Hop.RESPONSE_SEND)
        total_us = ended_us - timing.began_us
        assert sum(timing.hops_us) == total_us, "some time went to no hop, or to two"
        timing.kind.api.times.add_request(timing.hops_us, total_us)
        slow_ms = self._config.request_log_slow_ms
        if slow_ms >= 0 and total_us >= slow_ms * 1000:
            self._tell_slow(timing, total_us)
        self._forget(timing)
        if timing.trace is not None:
            self.traces.append(timing)

    def _forget(self, timing: RequestTiming) -> None:
        kind = timing.kind
        timing.pending.timing = None
        kind.timed -= 1
        if kind.timed == 0 and kind.requests - kind.timed_last <= OVERTAKEN_BY_MAX:
            kind.time_at = 0

    def cancelled(self, requests: Iterable[TimedRequest], api_key: int, unanswered: int) -> None:
        """Forget the requests of a connection whose client has disconnected; `unanswered` are those of `api_key`."""
        for pending in requests:
            if pending.timing is not None:
                self._forget(pending.timing)
        if unanswered:
            self.apis[api_key].cancelled += unanswered

    def _tell_slow(self, timing: RequestTiming, total_us: int) -> None:
        fields: dict[str, str | int] = {"total_us": total_us}
        for name, hop_us in zip(HOP_NAMES, timing.hops_us, strict=True):
            if hop_us:
                fields[f"{name.replace('-', '_')}_us"] = hop_us
        pending = timing.pending
        context = pending.connection.context
        self._log_lines.add_line(LogLevel.INFO, "slow request", context, pending.header, fields, pending.trace_id)

    def take_traces(self) -> list[RequestTiming]:
        traces, self.traces = self.traces, []
        return traces

    # --- errors ---

    def response_failed(self, api_key: int, response: Response) -> None:
        """Count the errors of a response, if there are any."""
        self._count(api_key, error_codes(response))

    def response_failed_in_steps(self, api_key: int, response: Response) -> Steps[None]:
        """Count the errors of a response that may be long."""
        codes: list[int] = []
        yield from error_codes_in_steps(response, codes)
        self._count(api_key, codes)

    def body_answered(self, api_key: int, version: int, body: Buffer) -> None:
        """Count the errors of a response that a logstore has encoded."""
        self._count(api_key, error_codes_of_body(api_key, version, body))

    def _count(self, api_key: int, codes: list[int]) -> None:
        if codes:
            api = self.apis[api_key]
            api.failed += 1
            for code, count in Counter(codes).items():
                api.errors[code] = api.errors.get(code, 0) + count


def kind_key(api_key: int, version: int) -> int:
    """Encode an int16 each; a negative one is not a key of any kind."""
    return api_key << 16 | version


def note_times(asked: list[tuple[RequestTiming | None, Times]], answer_times: Histogram) -> list[RequestTiming]:
    """Record the time of each request that an answer has arrived for, with what the logstore reports, and how long the
    answers took.
    """
    noted = []
    for timing, times in asked:
        if timing is not None:
            took_us = timing.answered(times.queue_us, times.work_us, times.wait_us)
            if took_us >= 0:
                answer_times.add(took_us)
            noted.append(timing)
    return noted
