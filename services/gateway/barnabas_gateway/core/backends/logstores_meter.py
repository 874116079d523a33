"""LogstoresMeter: metrics of the logstores as a processor sees them, which identify a slow one."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.metrics.connection_families import (
    LOGSTORE_ANSWER_MS,
    LOGSTORE_CREDIT,
    LOGSTORE_STREAMS_UP,
    LOGSTORE_UNANSWERED,
    LOGSTORE_WAITING,
)
from barnabas.metrics.family import Sample
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.backends.read_router import ReadLane, ReadRouter


class LogstoresMeter:
    def __init__(self, logstores: Logstores, reads: ReadRouter) -> None:
        self._logstores = logstores
        self._lanes = reads.lanes

    def samples(self) -> Iterator[Sample]:
        for logstore in self._logstores.all_logstores():
            node = str(logstore.node_id)
            reads = self._lanes.get(logstore.node_id) or ReadLane(logstore.node_id)
            yield Sample(LOGSTORE_STREAMS_UP, (node,), logstore.exchange_is_up)
            yield Sample(LOGSTORE_ANSWER_MS, (node,), logstore.answer_times)
            yield Sample(LOGSTORE_UNANSWERED, (node, "append"), len(logstore.appends.in_flight))
            yield Sample(LOGSTORE_UNANSWERED, (node, "query"), len(logstore.queries.in_flight))
            yield Sample(LOGSTORE_UNANSWERED, (node, "read"), len(reads.in_flight))
            yield Sample(LOGSTORE_WAITING, (node, "append"), len(logstore.appends.waiting))
            yield Sample(LOGSTORE_WAITING, (node, "read"), len(reads.waiting))
            for kind, credit in (("append", logstore.exchange_credit), ("read", reads.credit)):
                yield Sample(LOGSTORE_CREDIT, (node, kind, "requests"), credit.requests)
                yield Sample(LOGSTORE_CREDIT, (node, kind, "bytes"), credit.bytes)
