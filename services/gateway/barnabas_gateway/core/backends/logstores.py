"""The logstores as one processor sees them: two streams each, the credit on them, what is in flight, what waits.

A request spends credit or waits in line at its logstore, so a slow logstore holds up only those who want something of
it. Everything for one logstore leaves in one message per stream and turn.

A message costs both sides a hundred microseconds and more, whatever is in it. So appends gather over turns while more
of them than that are in flight to the same logstore: it has enough to do, and what gathers goes with its next answer.
With nothing in flight, or as much gathered as there is, they go at once; `GATHER_MS` bounds what one waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.channel.credits import CreditAccount
from barnabas.channel.messages import ExchangeRequest, ReadRequest
from barnabas.channel.timing import Times
from barnabas.metrics.histogram import Histogram
from barnabas_gateway.core.backends.credited_stream import CreditedStream
from barnabas_gateway.core.backends.partition_appends import AppendStream
from barnabas_gateway.core.backends.pending_query import PendingQuery
from barnabas_gateway.core.backends.read_lane import ReadLane
from barnabas_gateway.core.timing.request_timing import RequestTiming, timed_of

GATHER_IN_FLIGHT_MIN: Final = 16
"""With less in flight a logstore may soon have nothing to do."""
GATHER_APPENDS_MAX: Final = 64
"""As many as a logstore takes in one step."""
GATHER_BYTES_MAX: Final = 64 * 1024
GATHER_MS: Final = 2


class Logstore:
    __slots__ = (
        "answer_times",
        "appends",
        "exchange",
        "exchange_credit",
        "exchange_is_up",
        "gather_until_ms",
        "gathered_bytes",
        "leaving_exchange",
        "node_id",
        "queries",
        "reads",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.exchange_is_up = False
        self.exchange_credit = CreditAccount()
        self.exchange: ExchangeRequest | None = None
        """The next message, made when there is something to put into it."""
        self.gathered_bytes = 0
        """Records in `exchange`."""
        self.gather_until_ms = -1
        """When `exchange` goes at the latest; -1 while it is not held back."""
        self.leaving_exchange: list[RequestTiming] = []
        """Timed requests in `exchange`, once for each part."""
        self.answer_times = Histogram()
        """Of timed requests on the exchange."""
        self.appends: AppendStream = CreditedStream(self.exchange_credit)
        self.queries: CreditedStream[PendingQuery, PendingQuery] = CreditedStream(self.exchange_credit)
        self.reads = ReadLane(node_id)

    def gathers(self, exchange: ExchangeRequest, now_ms: int) -> bool:
        """Whether `exchange` had better wait for more appends."""
        gathered = len(exchange.appends)
        in_flight = len(self.appends.in_flight) - gathered
        if (
            in_flight < GATHER_IN_FLIGHT_MIN
            or in_flight <= gathered
            or gathered >= GATHER_APPENDS_MAX
            or self.gathered_bytes >= GATHER_BYTES_MAX
            or exchange.offset_queries
            or exchange.state_queries
        ):
            return False
        if self.gather_until_ms < 0:
            self.gather_until_ms = now_ms + GATHER_MS
        return now_ms < self.gather_until_ms

    def time(self, exchange: ExchangeRequest, request_id: int, timing: RequestTiming) -> None:
        """Ask for the times of a request that is in `exchange`."""
        exchange.timed.append(timed_of(request_id, timing))
        self.leaving_exchange.append(timing)

    def asked_on_exchange(self, times: Iterable[Times]) -> list[tuple[RequestTiming | None, Times]]:
        """Whose times these are; None of those that are over."""
        asked: list[tuple[RequestTiming | None, Times]] = []
        for each in times:
            append = self.appends.in_flight.get(each.request_id)
            query = self.queries.in_flight.get(each.request_id)
            pending = append.produce if append is not None else query.asker if query is not None else None
            asked.append((None if pending is None else pending.timing, each))
        return asked


class Logstores:
    """All of them by node id, the turn's messages, and the numbering of requests."""

    __slots__ = ("_by_node_id", "_exchanging", "_next_request_id", "_reading", "read_lanes")

    def __init__(self) -> None:
        self._by_node_id: dict[int, Logstore] = {}
        self.read_lanes: dict[int, ReadLane] = {}
        """Those of all logstores, by node id."""
        self._exchanging: list[Logstore] = []
        self._reading: list[ReadLane] = []
        self._next_request_id = 1

    def get(self, node_id: int) -> Logstore | None:
        return self._by_node_id.get(node_id)

    def ensure(self, node_id: int) -> Logstore:
        logstore = self._by_node_id.get(node_id)
        if logstore is None:
            logstore = self._by_node_id[node_id] = Logstore(node_id)
            self.read_lanes[node_id] = logstore.reads
        return logstore

    def take_request_id(self) -> int:
        """Never used twice by one processor, so an answer that comes late can't be taken for another's."""
        request_id = self._next_request_id
        self._next_request_id = request_id + 1
        return request_id

    def all(self) -> list[Logstore]:
        return list(self._by_node_id.values())

    def exchange_of(self, logstore: Logstore) -> ExchangeRequest:
        exchange = logstore.exchange
        if exchange is None:
            exchange = logstore.exchange = ExchangeRequest()
            if logstore not in self._exchanging:
                self._exchanging.append(logstore)
        return exchange

    def read_of(self, lane: ReadLane) -> ReadRequest:
        message = lane.message
        if message is None:
            message = lane.message = ReadRequest()
            self._reading.append(lane)
        return message

    def take_exchanges(self, now_ms: int) -> list[tuple[int, ExchangeRequest]]:
        taken = []
        gathering = []
        for logstore in self._exchanging:
            exchange = logstore.exchange
            if exchange is None:
                continue
            if logstore.gathers(exchange, now_ms):
                gathering.append(logstore)
                continue
            taken.append((logstore.node_id, exchange))
            if exchange.timed:
                _sent(logstore.leaving_exchange)
            logstore.exchange = None
            logstore.gathered_bytes = 0
            logstore.gather_until_ms = -1
        self._exchanging = gathering
        return taken

    def gather_until_ms(self) -> int | None:
        """When the first message that is held back goes at the latest."""
        return min((logstore.gather_until_ms for logstore in self._exchanging), default=None)

    def take_reads(self) -> list[tuple[int, ReadRequest]]:
        taken = []
        for lane in self._reading:
            if lane.message is not None:
                taken.append((lane.node_id, lane.message))
                if lane.leaving:
                    _sent(lane.leaving)
                lane.message = None
        self._reading.clear()
        return taken


def _sent(leaving: list[RequestTiming]) -> None:
    for timing in leaving:
        timing.sent()
    leaving.clear()
