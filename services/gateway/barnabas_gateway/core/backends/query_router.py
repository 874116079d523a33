"""Small queries to the leaders' logstores: offsets for ListOffsets, states of partitions for parked produces.

They travel with the appends and spend a request of the same credit. Repeating one is harmless, so a query that is lost
with its stream gets no answer, and the caller decides.
"""

from __future__ import annotations

from barnabas.channel.messages import OffsetAnswer, StateAnswer
from barnabas_gateway.core.backends.credited_stream import no_bytes
from barnabas_gateway.core.backends.logstores import Logstore, Logstores
from barnabas_gateway.core.backends.pending_query import PendingOffsetQuery, PendingQuery, PendingStateQuery
from barnabas_gateway.core.model.containment import end_by


class QueryRouter:
    __slots__ = ("_logstores",)

    def __init__(self, logstores: Logstores) -> None:
        self._logstores = logstores

    def submit_query(self, query: PendingQuery, node_id: int) -> bool:
        """Send a query to that logstore, now or when there is credit. Return False if there is no stream to it."""
        logstore = self._logstores.find_logstore(node_id)
        if logstore is None or not logstore.exchange_is_up:
            return False
        if logstore.queries.try_enter(query, 0):
            self._send(logstore, query)
        return True

    def _send(self, logstore: Logstore, query: PendingQuery) -> None:
        query.request_id = next(self._logstores.request_ids)
        logstore.queries.in_flight[query.request_id] = query
        exchange = self._logstores.exchange_of(logstore)
        if isinstance(query, PendingOffsetQuery):
            exchange.offset_queries.append(query)
        else:
            exchange.state_queries.append(query)
        if query.asker.timing is not None:
            logstore.time_request(exchange, query.request_id, query.asker.timing)

    def credit_granted(self, logstore: Logstore) -> None:
        for query in logstore.queries.admit(no_bytes):
            self._send(logstore, query)

    def offset_answered(self, logstore: Logstore, answer: OffsetAnswer) -> None:
        query = logstore.queries.in_flight.pop(answer.request_id, None)
        if isinstance(query, PendingOffsetQuery):
            try:
                query.asker.offset_answered(query, answer)
            except Exception as error:
                end_by(query.asker, error)

    def state_answered(self, logstore: Logstore, answer: StateAnswer) -> None:
        query = logstore.queries.in_flight.pop(answer.request_id, None)
        if isinstance(query, PendingStateQuery):
            try:
                query.asker.state_answered(query, answer)
            except Exception as error:
                end_by(query.asker, error)

    def stream_lost(self, logstore: Logstore) -> None:
        in_flight, waiting = logstore.queries.lose()
        if logstore.exchange is not None:
            logstore.exchange.offset_queries.clear()
            logstore.exchange.state_queries.clear()
        for query in (*in_flight, *waiting):
            try:
                query.lost()
            except Exception as error:
                end_by(query.asker, error)
