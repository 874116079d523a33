"""The logstores as one processor sees them: the exchange with each, the credit on it, what is in flight, what waits.

A request spends credit or waits in line at its logstore, so a slow logstore holds up only those who want something of
it. Everything for one logstore leaves in one message per turn. Reads and calls to coordinators have streams of their
own (`read_router`, `coordinator_client`).

A message costs both sides a hundred microseconds and more, whatever it contains. So appends are batched over turns
while more of them than already batched are in flight to the same logstore: it has enough to do, and the batch is sent
with its next answer. With nothing in flight, or as much batched as is in flight, they are sent at once; `GATHER_MS`
bounds how long one waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final

from barnabas.channel.credits import CreditAccount
from barnabas.channel.messages import ExchangeRequest
from barnabas.channel.timing import Times
from barnabas.metrics.histogram import Histogram
from barnabas_gateway.core.backends.credited_stream import CreditedStream
from barnabas_gateway.core.backends.partition_appends import AppendStream
from barnabas_gateway.core.backends.pending_query import PendingQuery
from barnabas_gateway.core.timing.request_timing import RequestTiming, timed_of

GATHER_IN_FLIGHT_MIN: Final = 16
"""With less in flight, a logstore may soon be idle."""
GATHER_APPENDS_MAX: Final = 64
"""As many as a logstore processes in one step."""
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
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.exchange_is_up = False
        self.exchange_credit = CreditAccount()
        self.exchange: ExchangeRequest | None = None
        """The next message, created when there is something to put into it."""
        self.gathered_bytes = 0
        """Bytes of records in `exchange`."""
        self.gather_until_ms = -1
        """When `exchange` is sent at the latest; -1 while it is not held back."""
        self.leaving_exchange: list[RequestTiming] = []
        """Timed requests in `exchange`, once for each part."""
        self.answer_times = Histogram()
        """Timed requests on the exchange stream."""
        self.appends: AppendStream = CreditedStream(self.exchange_credit)
        self.queries: CreditedStream[PendingQuery, PendingQuery] = CreditedStream(self.exchange_credit)

    def gathers(self, exchange: ExchangeRequest, now_ms: int) -> bool:
        """Whether `exchange` should wait for more appends."""
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

    def time_request(self, exchange: ExchangeRequest, request_id: int, timing: RequestTiming) -> None:
        """Request the times of a request that is in `exchange`."""
        exchange.timed.append(timed_of(request_id, timing))
        self.leaving_exchange.append(timing)

    def asked_on_exchange(self, times: Iterable[Times]) -> list[tuple[RequestTiming | None, Times]]:
        """Return the timed requests with these ids, without those that have ended."""
        asked: list[tuple[RequestTiming | None, Times]] = []
        for each in times:
            append = self.appends.in_flight.get(each.request_id)
            query = self.queries.in_flight.get(each.request_id)
            pending = append.produce if append is not None else query.asker if query is not None else None
            asked.append((None if pending is None else pending.timing, each))
        return asked


class Logstores:
    """All logstores by node id, the turn's messages, and the numbering of requests."""

    __slots__ = ("_by_node_id", "request_ids", "sending")

    def __init__(self) -> None:
        self._by_node_id: dict[int, Logstore] = {}
        self.sending: list[Logstore] = []
        """Those with a message that has not left."""
        self.request_ids = count(1)
        """Ids that this processor never reuses, so that a late answer can't be taken for another's."""

    def find_logstore(self, node_id: int) -> Logstore | None:
        return self._by_node_id.get(node_id)

    def ensure_logstore(self, node_id: int) -> Logstore:
        logstore = self._by_node_id.get(node_id)
        if logstore is None:
            logstore = self._by_node_id[node_id] = Logstore(node_id)
        return logstore

    def all_logstores(self) -> list[Logstore]:
        return list(self._by_node_id.values())

    def exchange_of(self, logstore: Logstore) -> ExchangeRequest:
        exchange = logstore.exchange
        if exchange is None:
            exchange = logstore.exchange = ExchangeRequest()
            if logstore not in self.sending:
                self.sending.append(logstore)
        return exchange

    def take_messages(self, now_ms: int) -> list[tuple[int, ExchangeRequest]]:
        taken = []
        gathering = []
        for logstore in self.sending:
            exchange = logstore.exchange
            if exchange is None:
                continue
            if logstore.gathers(exchange, now_ms):
                gathering.append(logstore)
                continue
            taken.append((logstore.node_id, exchange))
            if exchange.timed:
                for timing in logstore.leaving_exchange:
                    timing.sent()
                logstore.leaving_exchange.clear()
            logstore.exchange = None
            logstore.gathered_bytes = 0
            logstore.gather_until_ms = -1
        self.sending = gathering
        return taken

    def gather_until_ms(self) -> int | None:
        """When the first message that is held back is sent at the latest."""
        return min((logstore.gather_until_ms for logstore in self.sending), default=None)
