"""How every stream of the data side begins: a hello first, one of this cluster; requests only with credit for them."""

from __future__ import annotations

from barnabas.channel.credits import CreditPool
from barnabas.channel.messages import Hello, Welcome
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.streams import Stream


class StreamHandshake:
    def __init__(self, replicas: Replicas, outbox: Outbox) -> None:
        self._replicas = replicas
        self._outbox = outbox

    def greet(self, stream: Stream, hello: Hello) -> Welcome | None:
        """None: the stream ends."""
        if stream.greeted:
            self.close(stream, "a second hello")
            return None
        cluster_id = self._replicas.cluster_id
        if hello.cluster_id not in ("", cluster_id):
            self.close(stream, f"cluster {hello.cluster_id} is not this one, {cluster_id}")
            return None
        stream.greeted = True
        return Welcome(self._replicas.node_id, self._replicas.broker_epoch)

    def has_greeted(self, stream: Stream) -> bool:
        if not stream.greeted:
            self.close(stream, "the first message is no hello")
        return stream.greeted

    def admit(self, stream: Stream, credit_pool: CreditPool, request_count: int, byte_count: int) -> bool:
        """Requests need a hello before and credit for them; who breaks that is broken, and loses the stream."""
        if not self.has_greeted(stream):
            return False
        if not credit_pool.received(stream.stream_id, request_count, byte_count):
            self.close(stream, "more requests than there was credit for")
            return False
        return True

    def close(self, stream: Stream, reason: str) -> None:
        """Have the host end a stream; it reports the end by `on_stream_closed` like any other."""
        stream.closed = True
        self._outbox.close(stream.stream_id, reason)
