"""Appends, reads and queries of processors: they are checked, wait here, and are worked off in bounded steps.

In the order in which they came, except that a read of more partitions than a step has time for lets others go ahead: it
gets a quarter of each step, in turn with others of its kind, and what the rest leaves. Behind four reads of 10,000
partitions each, an append would wait for 600 steps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import assert_never

from barnabas.channel.credits import CreditPool
from barnabas.channel.messages import (
    Append,
    ExchangeRequest,
    OffsetQuery,
    ReadRequest,
    StateQuery,
)
from barnabas.channel.timing import Timed
from barnabas.containment import CONTAINING
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.data.queries import Queries
from barnabas_logstore.core.data.reads import Reads
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.request_times import FETCH, LIST_OFFSETS, PRODUCE, TimedRequest
from barnabas_logstore.core.streams.stream_handshake import StreamHandshake
from barnabas_logstore.core.streams.streams import ExchangeStream, PendingRead, ReadStream


@dataclass(slots=True, frozen=True)
class StepLimits:
    """A step ends after so many requests (each partition of a read counts) or record bytes."""

    requests_max: int
    bytes_max: int


class DataInbox:
    """Exchange and Read streams by their ids, and the requests of all of them in the order in which they came."""

    def __init__(
        self,
        limits: StepLimits,
        handshake: StreamHandshake,
        credit_pool: CreditPool,
        outbox: Outbox,
        appends: Appends,
        reads: Reads,
        queries: Queries,
    ) -> None:
        self._limits = limits
        self._handshake = handshake
        self._credits = credit_pool
        self._outbox = outbox
        self._appends = appends
        self._reads = reads
        self._queries = queries
        self._waiting: deque[tuple[ExchangeStream, Append | OffsetQuery | StateQuery] | PendingRead] = deque()
        self._long_reads: deque[PendingRead] = deque()
        """Reads of more partitions than a step has time for; the first is the next to go on."""
        self._taken = 0
        """The number of requests begun so far."""
        self._timed: deque[tuple[int, TimedRequest]] = deque()
        """Timed requests that wait, in order: each with how many requests will have been begun before it."""
        self._streams: dict[int, ExchangeStream | ReadStream] = {}
        self._refuses_appends = False
        """Whether the logstore is stopping."""

    def __len__(self) -> int:
        """The number of waiting requests."""
        return len(self._waiting) + len(self._long_reads)

    # --- a step ------------------------------------------------------------------------------------------------------

    def step(self, wall_ms: int) -> None:
        """Process what waits, within the step's bounds."""
        inbox = self._waiting
        if not inbox and not self._long_reads:
            return
        waiting = len(inbox)
        began_us = self._outbox.times.read_us() if self._timed else 0
        self._work_off(wall_ms)
        self._taken += waiting - len(inbox)
        while self._timed and self._timed[0][0] < self._taken:
            self._timed.popleft()[1].begun_us = began_us

    def _work_off(self, wall_ms: int) -> None:
        requests_left, bytes_left = self._limits.requests_max, self._limits.bytes_max
        inbox = self._waiting
        share = max(1, requests_left // 4)
        if self._long_reads:
            requests_left -= self._plan_more(share)
        while inbox and requests_left > 0 and bytes_left > 0:
            waiting = inbox.popleft()
            if isinstance(waiting, PendingRead):
                if len(waiting.read.partitions) > self._limits.requests_max:
                    self._long_reads.append(waiting)
                    requests_left -= 1
                    continue
                requests_left -= self._plan(waiting, requests_left)
                if not waiting.is_planned:
                    inbox.appendleft(waiting)
                continue
            stream, request = waiting
            requests_left -= 1
            if stream.closed:
                continue
            try:
                match request:
                    case Append():
                        bytes_left -= len(request.records)
                        self._appends.append(stream, request, wall_ms)
                    case OffsetQuery():
                        self._queries.query_offset(stream, request)
                    case StateQuery():
                        self._queries.query_state(stream, request)
                    case _:
                        assert_never(request)
            except Exception as error:
                with CONTAINING:
                    if isinstance(request, Append):
                        self._appends.contain(stream, request, error)
                    else:
                        self._queries.contain(stream, request, error)
        while self._long_reads and requests_left > 0:
            requests_left -= self._plan_more(min(share, requests_left))

    def _plan(self, read: PendingRead, partitions_max: int) -> int:
        """Plan so many partitions of a read; return what that counts for."""
        try:
            return max(1, self._reads.plan(read, partitions_max))
        except Exception as error:
            with CONTAINING:
                self._reads.contain(read, error)
            return 1

    def _plan_more(self, partitions_max: int) -> int:
        """As `_plan`, of the long read whose turn it is."""
        read = self._long_reads.popleft()
        planned = self._plan(read, partitions_max)
        if not read.is_planned:
            self._long_reads.append(read)
        return planned

    # --- what arrives ------------------------------------------------------------------------------------------------

    def on_exchange(self, stream_id: int, request: ExchangeRequest) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = ExchangeStream(stream_id)
        assert isinstance(stream, ExchangeStream)
        if stream.closed:
            return
        if request.hello is not None:
            welcome = self._handshake.greet(stream, request.hello)
            if welcome is None:
                return
            response = self._outbox.exchange_response(stream)
            response.welcome, response.credit = welcome, self._credits.open_stream(stream_id)
        appends = request.appends
        request_count = len(appends) + len(request.offset_queries) + len(request.state_queries)
        if not request_count:
            return
        byte_count = sum([len(append.records) for append in appends])
        if not (stream.greeted and self._credits.received(stream_id, request_count, byte_count)):
            self._handshake.refuse(stream)
            return
        if request.timed:
            self._time_exchange(stream, request)
        if self._refuses_appends:
            self._appends.refuse_all(stream, appends)
        else:
            self._waiting.extend([(stream, append) for append in appends])
        self._waiting.extend([(stream, query) for query in request.offset_queries])
        self._waiting.extend([(stream, query) for query in request.state_queries])

    def _time_exchange(self, stream: ExchangeStream, request: ExchangeRequest) -> None:
        """Note which of the requests are timed, before they are queued."""
        request_ids = [] if self._refuses_appends else [append.request_id for append in request.appends]
        names = dict.fromkeys((each.request_id for each in request.offset_queries), LIST_OFFSETS)
        request_ids += [*names, *(query.request_id for query in request.state_queries)]
        self._time(stream, request.timed, request_ids, names, PRODUCE)

    def _time(
        self,
        stream: ExchangeStream | ReadStream,
        timed: list[Timed],
        request_ids: list[int],
        names: dict[int, str],
        name: str,
    ) -> None:
        """`request_ids` are about to be queued; `name` applies to those that are not in `names`."""
        now_us = self._outbox.times.read_us()
        asked = {each.request_id: each for each in timed}
        first = self._taken + len(self._waiting)
        for place, request_id in enumerate(request_ids, first):
            each = asked.get(request_id)
            if each is not None:
                request = TimedRequest(each, names.get(request_id, name), now_us)
                stream.timed[request_id] = request
                self._timed.append((place, request))

    def on_read(self, stream_id: int, request: ReadRequest) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = ReadStream(stream_id)
        assert isinstance(stream, ReadStream)
        if stream.closed:
            return
        if request.hello is not None:
            welcome = self._handshake.greet(stream, request.hello)
            if welcome is None:
                return
            response = self._outbox.read_response(stream)
            response.welcome, response.credit = welcome, self._credits.open_stream(stream_id)
        for request_id in request.cancels:
            self._reads.cancel(stream, request_id)
        if not request.reads:
            return
        if not (stream.greeted and self._credits.received(stream_id, len(request.reads), 0)):
            self._handshake.refuse(stream)
            return
        if request.timed:
            self._time(stream, request.timed, [read.request_id for read in request.reads], {}, FETCH)
        self._waiting.extend([self._reads.accept(stream, read) for read in request.reads])

    def on_stream_closed(self, stream_id: int) -> None:
        """Drop its requests that have not begun; what is appended stays appended."""
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        stream.closed = True
        self._credits.close_stream(stream_id)
        if isinstance(stream, ReadStream):
            self._reads.close(stream)

    # --- the end -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Refuse appends from now on: they are certainly not written."""
        self._refuses_appends = True

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._long_reads
