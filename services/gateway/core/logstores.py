"""The logstores as one processor sees them: two streams each, the credit on them, what is in flight, what waits.

A request spends credit or waits in line at its logstore, so a slow logstore holds up only those who want something of
it. Everything for one logstore leaves in one message per stream and turn.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.channel.assembly import ReadAssembler
from barnabas.channel.credits import CreditAccount
from barnabas.channel.messages import ExchangeRequest, ReadRequest

if TYPE_CHECKING:
    from services.gateway.core.appends import AppendOrder, PendingAppend
    from services.gateway.core.queries import PendingQuery
    from services.gateway.core.reads import PendingRead


class Logstore:
    __slots__ = (
        "appends_in_flight",
        "assembler",
        "exchange",
        "exchange_credit",
        "exchange_is_up",
        "node_id",
        "queries_in_flight",
        "read",
        "read_credit",
        "read_is_up",
        "reads_in_flight",
        "waiting_orders",
        "waiting_queries",
        "waiting_reads",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.exchange_is_up = False
        self.exchange_credit = CreditAccount()
        self.exchange: ExchangeRequest | None = None
        """This turn's message, made when there is something to put into it; likewise `read`."""
        self.appends_in_flight: dict[int, PendingAppend] = {}
        self.queries_in_flight: dict[int, PendingQuery] = {}
        self.waiting_orders: deque[AppendOrder] = deque()
        """Those with appends that lack credit here, each once."""
        self.waiting_queries: deque[PendingQuery] = deque()
        self.read_is_up = False
        self.read_credit = CreditAccount()
        self.read: ReadRequest | None = None
        self.reads_in_flight: dict[int, PendingRead] = {}
        self.assembler = ReadAssembler()
        self.waiting_reads: deque[PendingRead] = deque()


class Logstores:
    """All of them by node id, the turn's messages, and the numbering of requests."""

    __slots__ = ("_by_node_id", "_exchanging", "_next_request_id", "_reading")

    def __init__(self) -> None:
        self._by_node_id: dict[int, Logstore] = {}
        self._exchanging: list[Logstore] = []
        self._reading: list[Logstore] = []
        self._next_request_id = 1

    def get(self, node_id: int) -> Logstore | None:
        return self._by_node_id.get(node_id)

    def ensure(self, node_id: int) -> Logstore:
        logstore = self._by_node_id.get(node_id)
        if logstore is None:
            logstore = self._by_node_id[node_id] = Logstore(node_id)
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
            self._exchanging.append(logstore)
        return exchange

    def read_of(self, logstore: Logstore) -> ReadRequest:
        read = logstore.read
        if read is None:
            read = logstore.read = ReadRequest()
            self._reading.append(logstore)
        return read

    def take_exchanges(self) -> list[tuple[int, ExchangeRequest]]:
        taken = []
        for logstore in self._exchanging:
            if logstore.exchange is not None:
                taken.append((logstore.node_id, logstore.exchange))
                logstore.exchange = None
        self._exchanging.clear()
        return taken

    def take_reads(self) -> list[tuple[int, ReadRequest]]:
        taken = []
        for logstore in self._reading:
            if logstore.read is not None:
                taken.append((logstore.node_id, logstore.read))
                logstore.read = None
        self._reading.clear()
        return taken
