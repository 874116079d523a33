"""LogstoresMeter: how logstores look from a processor, which names the one that is slow."""

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


class LogstoresMeter:
    def __init__(self, logstores: Logstores) -> None:
        self._logstores = logstores

    def samples(self) -> Iterator[Sample]:
        for logstore in self._logstores.all():
            node = str(logstore.node_id)
            yield Sample(LOGSTORE_STREAMS_UP, (node,), logstore.exchange_is_up)
            yield Sample(LOGSTORE_ANSWER_MS, (node,), logstore.answer_times)
            yield Sample(LOGSTORE_UNANSWERED, (node, "append"), len(logstore.appends.in_flight))
            yield Sample(LOGSTORE_UNANSWERED, (node, "query"), len(logstore.queries.in_flight))
            yield Sample(LOGSTORE_UNANSWERED, (node, "read"), len(logstore.reads.in_flight))
            yield Sample(LOGSTORE_WAITING, (node, "append"), len(logstore.appends.waiting))
            yield Sample(LOGSTORE_WAITING, (node, "read"), len(logstore.reads.waiting))
            for kind, credit in (("append", logstore.exchange_credit), ("read", logstore.reads.credit)):
                yield Sample(LOGSTORE_CREDIT, (node, kind, "requests"), credit.requests)
                yield Sample(LOGSTORE_CREDIT, (node, kind, "bytes"), credit.bytes)
