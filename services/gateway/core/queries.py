"""Small questions to the leaders' logstores: offsets for ListOffsets, states of partitions for parked produces.

They travel with the appends and spend a request of the same credit. Asking twice does no harm, so a question that is
lost with its stream is simply not answered, and its asker decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from barnabas.channel.messages import OffsetAnswer, OffsetQuery, StateAnswer, StateQuery
from barnabas.wire.messages.list_offsets import ListOffsetsPartitionResponse
from services.gateway.core.logstores import Logstore

if TYPE_CHECKING:
    from services.gateway.core.handlers.api_02_list_offsets import PendingListOffsets
    from services.gateway.core.partition_appends import PendingAppend
    from services.gateway.core.processor import Processor
    from services.gateway.core.produce import PendingProduce


class PendingOffsetQuery(OffsetQuery):
    __slots__ = ("asker", "response")

    def __init__(
        self,
        asker: PendingListOffsets,
        topic_id: bytes,
        partition: int,
        current_leader_epoch: int,
        isolation_level: int,
        timestamp: int,
        response: ListOffsetsPartitionResponse,
    ) -> None:
        super().__init__(0, topic_id, partition, current_leader_epoch, isolation_level, timestamp)
        self.asker = asker
        self.response = response

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def lost(self) -> None:
        self.asker.offset_answered(self, None)


class PendingStateQuery(StateQuery):
    __slots__ = ("append", "asker", "node_id")

    def __init__(self, asker: PendingProduce, append: PendingAppend, node_id: int) -> None:
        super().__init__(0, append.topic_id, append.partition, append.record_epoch, append.required_offset)
        self.asker = asker
        self.append = append
        self.node_id = node_id
        """The logstore that is asked."""

    def lost(self) -> None:
        self.asker.state_answered(self, None)


PendingQuery: TypeAlias = PendingOffsetQuery | PendingStateQuery


class QueryRouter:
    __slots__ = ("_logstores",)

    def __init__(self, processor: Processor) -> None:
        self._logstores = processor.logstores

    def submit(self, query: PendingQuery, node_id: int) -> bool:
        """Ask that logstore, now or when there is credit; False when there is no stream to it."""
        logstore = self._logstores.get(node_id)
        if logstore is None or not logstore.exchange_is_up:
            return False
        if logstore.waiting_queries or not logstore.exchange_credit.try_spend(1, 0):
            logstore.waiting_queries.append(query)
        else:
            self._send(logstore, query)
        return True

    def _send(self, logstore: Logstore, query: PendingQuery) -> None:
        query.request_id = self._logstores.take_request_id()
        logstore.queries_in_flight[query.request_id] = query
        exchange = self._logstores.exchange_of(logstore)
        if isinstance(query, PendingOffsetQuery):
            exchange.offset_queries.append(query)
        else:
            exchange.state_queries.append(query)
        if query.asker.timing is not None:
            logstore.time(exchange, query.request_id, query.asker.timing)

    def credit_granted(self, logstore: Logstore) -> None:
        while logstore.waiting_queries and logstore.exchange_credit.try_spend(1, 0):
            self._send(logstore, logstore.waiting_queries.popleft())

    def offset_answered(self, logstore: Logstore, answer: OffsetAnswer) -> None:
        query = logstore.queries_in_flight.pop(answer.request_id, None)
        if isinstance(query, PendingOffsetQuery):
            query.asker.offset_answered(query, answer)

    def state_answered(self, logstore: Logstore, answer: StateAnswer) -> None:
        query = logstore.queries_in_flight.pop(answer.request_id, None)
        if isinstance(query, PendingStateQuery):
            query.asker.state_answered(query, answer)

    def stream_lost(self, logstore: Logstore) -> None:
        lost = [*logstore.queries_in_flight.values(), *logstore.waiting_queries]
        logstore.queries_in_flight.clear()
        logstore.waiting_queries.clear()
        if logstore.exchange is not None:
            logstore.exchange.offset_queries.clear()
            logstore.exchange.state_queries.clear()
        for query in lost:
            query.lost()
