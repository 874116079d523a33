"""What is measured of requests: counts of all of them, times of some.

A request costs this processor some ten microseconds, and to time one takes a few. So a request of an API and version is
timed when the last one that was timed is answered and few others have come meanwhile, which is every request while
clients wait for each answer; else 1 in `TIMED_EVERY`. Whether it is timed is decided before it is known how long it
will take, so what is timed is like the rest.

A request that is traced is timed, too: every `traces_sample_every`-th of its API and version.

Histograms are kept without zeros: what a request did not spend at a hop is filled in when samples are asked for.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from barnabas.channel.timing import Times
from barnabas.metrics import request_families as families
from barnabas.metrics.family import Family, Sample
from barnabas.metrics.histogram import BYTE_BOUNDS, Histogram
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Response
from barnabas.wire.primitives import Buffer, Steps
from services.gateway.core.effects import LogLevel
from services.gateway.core.handlers import HANDLERS, Handler
from services.gateway.core.request_timing import HOP_NAMES, Hop, RequestTiming, Trace
from services.gateway.core.response_errors import error_codes, error_codes_in_steps, error_codes_of_body, error_name

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection
    from services.gateway.core.processor import Processor
    from services.gateway.core.slots import Slot

TIMED_EVERY: Final = 256
OVERTAKEN_BY_MAX: Final = 4
"""Requests that have come since a timed one began: more of them, and the next to be timed is `TIMED_EVERY` away."""

_TIMES_OF_HOPS: Final = (
    (families.REQUEST_QUEUE_TIME_MS, Hop.REQUEST_QUEUE),
    (families.REMOTE_TIME_MS, Hop.PURGATORY),
    (families.RESPONSE_QUEUE_TIME_MS, Hop.RESPONSE_QUEUE),
    (families.RESPONSE_SEND_TIME_MS, Hop.RESPONSE_SEND),
)
"""Kafka's name of what is one hop here."""


class ApiTimes:
    """Of the timed requests of one API."""

    __slots__ = ("hops", "local", "request_bytes", "total")

    def __init__(self) -> None:
        self.total = Histogram()
        self.local = Histogram()
        self.hops = [Histogram() for _ in HOP_NAMES]
        """By hop, without zeros."""
        self.request_bytes = Histogram(BYTE_BOUNDS, unit=1)

    def add(self, hops_us: list[int], total_us: int) -> None:
        for histogram, hop_us in zip(self.hops, hops_us, strict=True):
            if hop_us:
                histogram.add(hop_us)
        others_us = hops_us[Hop.REQUEST_QUEUE] + hops_us[Hop.PURGATORY]
        others_us += hops_us[Hop.RESPONSE_QUEUE] + hops_us[Hop.RESPONSE_SEND]
        self.local.add(total_us - others_us)
        self.total.add(total_us)

    def hop(self, hop: int) -> Histogram:
        """With the zeros."""
        return _with_zeros(self.hops[hop], self.total.count)


class ApiMetrics:
    """One API, whatever the version."""

    __slots__ = ("cancelled", "errors", "failed", "kinds", "name", "times")

    def __init__(self, name: str) -> None:
        self.name = name
        self.kinds: list[RequestKind] = []
        self.errors: dict[int, int] = {}
        """By code, in all answers."""
        self.failed = 0
        """Answers with any of these."""
        self.cancelled = 0
        """Requests whose clients were gone before they were answered."""
        self.times = ApiTimes()


class RequestKind:
    """One API in one version: who handles it, and how many have come."""

    __slots__ = ("api", "handler", "request_bytes", "requests", "time_at", "timed", "trace_at", "version")

    def __init__(self, api: ApiMetrics, handler: Handler, version: int, trace_at: int) -> None:
        self.api = api
        self.handler = handler
        self.version = version
        self.requests = 0
        self.request_bytes = 0
        self.time_at = 0
        """The request with this number is timed, and those after it until this is changed."""
        self.timed = 0
        """Under way."""
        self.trace_at = trace_at


class RequestMetrics:
    """`samples` is for the host's scrapes, all else for the rooms. `read_us` is monotonic; `random_bytes` makes the ids
    of traces.
    """

    __slots__ = ("_processor", "_random_bytes", "_trace_every", "apis", "kinds", "read_us", "sending", "traces")

    def __init__(self, processor: Processor, read_us: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._processor = processor
        self._random_bytes = random_bytes
        self.read_us = read_us
        self._trace_every = processor.config.traces_sample_every or sys.maxsize
        self.apis: dict[int, ApiMetrics] = {}
        """By API key."""
        self.kinds: dict[int, RequestKind] = {}
        """By API key and version, as `kind_key` has them."""
        self.sending: list[RequestTiming] = []
        """Whose answers the sockets have not taken."""
        self.traces: list[RequestTiming] = []
        """Finished, for the host to take."""
        for api_key, handler in HANDLERS.items():
            is_fetch = api_key == ApiKey.FETCH
            api = self.apis[api_key] = ApiMetrics("FetchConsumer" if is_fetch else ApiKey(api_key).api_name)
            for version in range(handler.version_min, handler.version_max + 1):
                kind = RequestKind(api, handler, version, min(self._trace_every, sys.maxsize))
                kind.time_at = 0 if processor.config.metrics_enable else sys.maxsize
                api.kinds.append(kind)
                self.kinds[kind_key(api_key, version)] = kind

    # --- a timed request ---

    def time(self, kind: RequestKind, slot: Slot, arrived_us: int) -> None:
        """Time this request, which is about to start; `arrived_us` is -1 where that is when it has come."""
        now_us = self.read_us()
        timing = RequestTiming(kind, slot, now_us if arrived_us < 0 else arrived_us, self.read_us)
        slot.timing = timing
        if kind.requests >= kind.trace_at:
            kind.trace_at = kind.requests + self._trace_every
            timing.trace = Trace(self._random_bytes(16), self._random_bytes(8))
        kind.time_at = min(kind.requests + TIMED_EVERY, kind.trace_at)
        kind.timed += 1
        kind.api.times.request_bytes.add(slot.frame_bytes)
        timing.enter(Hop.GATEWAY)

    def leaves(self, timing: RequestTiming) -> None:
        """Its answer is among what is written to its connection in this turn."""
        timing.enter(Hop.RESPONSE_SEND)
        timing.slot.buffers = None
        self.sending.append(timing)

    def turn_taken(self) -> None:
        """What was to be written in this turn has been given to the host."""
        for timing in self.sending:
            if timing.sent_position < 0:
                timing.sent_position = timing.slot.connection.written_bytes

    def turn_over(self) -> None:
        """The sockets have taken what they could."""
        sending, self.sending = self.sending, []
        for timing in sending:
            connection = timing.slot.connection
            taken = connection.written_bytes - connection.unsent_bytes
            if connection.is_closed or 0 <= timing.sent_position <= taken:
                self.finish(timing)
            else:
                self.sending.append(timing)

    def finish(self, timing: RequestTiming) -> None:
        """Its answer is out, or it has none."""
        ended_us = timing.enter(Hop.RESPONSE_SEND)
        total_us = ended_us - timing.began_us
        assert sum(timing.hops_us) == total_us, "some time went to no hop, or to two"
        timing.kind.api.times.add(timing.hops_us, total_us)
        slow_ms = self._processor.config.request_log_slow_ms
        if slow_ms >= 0 and total_us >= slow_ms * 1000:
            self._tell_slow(timing, total_us)
        self._forget(timing)
        if timing.trace is not None:
            self.traces.append(timing)

    def _forget(self, timing: RequestTiming) -> None:
        kind = timing.kind
        timing.slot.timing = None
        kind.timed -= 1
        overtaken_by = kind.requests + TIMED_EVERY - kind.time_at
        if kind.timed == 0 and overtaken_by <= OVERTAKEN_BY_MAX:
            kind.time_at = 0

    def cancelled(self, connection: Connection) -> None:
        """Its client is gone: nothing is told of what was under way."""
        for slot in connection.slots:
            if slot.timing is not None:
                self._forget(slot.timing)
        if connection.unanswered:
            self.apis[connection.run_api_key].cancelled += connection.unanswered

    def _tell_slow(self, timing: RequestTiming, total_us: int) -> None:
        fields: dict[str, str | int] = {"total_us": total_us}
        for name, hop_us in zip(HOP_NAMES, timing.hops_us, strict=True):
            if hop_us:
                fields[f"{name.replace('-', '_')}_us"] = hop_us
        slot = timing.slot
        context = slot.connection.context
        self._processor.journal.note(LogLevel.INFO, "slow request", context, slot.header, fields, slot.trace_id)

    def take_traces(self) -> list[RequestTiming]:
        traces, self.traces = self.traces, []
        return traces

    # --- errors ---

    def response_failed(self, api_key: int, response: Response) -> None:
        """Count the errors of an answer, if there are any."""
        self._count(api_key, error_codes(response))

    def response_failed_in_steps(self, api_key: int, response: Response) -> Steps[None]:
        """The same of an answer that may be long."""
        codes: list[int] = []
        yield from error_codes_in_steps(response, codes)
        self._count(api_key, codes)

    def body_answered(self, api_key: int, version: int, body: Buffer) -> None:
        """The same of an answer that a logstore has encoded."""
        self._count(api_key, error_codes_of_body(api_key, version, body))

    def _count(self, api_key: int, codes: list[int]) -> None:
        if codes:
            api = self.apis[api_key]
            api.failed += 1
            for code, count in Counter(codes).items():
                api.errors[code] = api.errors.get(code, 0) + count

    # --- samples ---

    def samples(self) -> Iterable[Sample]:
        unanswered = self._processor.clients.unanswered_by_api_key()
        for api_key, api in self.apis.items():
            requests = sum(kind.requests for kind in api.kinds)
            if not requests:
                continue
            for kind in api.kinds:
                if kind.requests:
                    yield Sample(families.REQUESTS_PER_SEC, (api.name, str(kind.version)), kind.requests)
            request_bytes = sum(kind.request_bytes for kind in api.kinds)
            yield Sample(families.REQUEST_BYTES_TOTAL, (api.name,), request_bytes)
            succeeded = requests - api.failed - api.cancelled - unanswered.get(api_key, 0)
            yield Sample(families.ERRORS_PER_SEC, (api.name, ErrorCode.NONE.name), succeeded)
            for code, count in api.errors.items():
                yield Sample(families.ERRORS_PER_SEC, (api.name, error_name(code)), count)
            yield from _times(api)
        conversions = self._processor.conversions
        for api_key, counts in ((ApiKey.PRODUCE, conversions.produce), (ApiKey.FETCH, conversions.fetch)):
            name = self.apis[api_key].name
            if counts.time_ms.count:
                yield Sample(families.MESSAGE_CONVERSIONS_TIME_MS, (name,), counts.time_ms)
                yield Sample(families.TEMPORARY_MEMORY_BYTES, (name,), counts.memory_bytes)


def _times(api: ApiMetrics) -> Iterator[Sample]:
    def sample(family: Family, histogram: Histogram, *labels: str) -> Sample:
        return Sample(family, (api.name, *labels), histogram)

    times = api.times
    yield sample(families.REQUEST_BYTES, times.request_bytes)
    yield sample(families.TOTAL_TIME_MS, times.total)
    yield sample(families.LOCAL_TIME_MS, times.local)
    yield sample(families.THROTTLE_TIME_MS, _with_zeros(Histogram(), times.total.count))
    for family, hop in _TIMES_OF_HOPS:
        yield sample(family, times.hop(hop))
    for hop, name in enumerate(HOP_NAMES):
        yield sample(families.HOP_MS, times.hop(hop), name)


def _with_zeros(histogram: Histogram, count: int) -> Histogram:
    whole = Histogram(histogram.bounds, histogram.unit)
    whole.merge(histogram)
    whole.counts[0] += count - histogram.count
    return whole


def kind_key(api_key: int, version: int) -> int:
    """Of an int16 each; what is negative is no key of any kind."""
    return api_key << 16 | version


def note_times(asked: list[tuple[RequestTiming | None, Times]], answer_times: Histogram) -> list[RequestTiming]:
    """Those that an answer has come for, with what the logstore says of it; and how long the answers took."""
    noted = []
    for timing, times in asked:
        if timing is not None:
            took_us = timing.answered(times.queue_us, times.work_us)
            if took_us >= 0:
                answer_times.add(took_us)
            noted.append(timing)
    return noted
