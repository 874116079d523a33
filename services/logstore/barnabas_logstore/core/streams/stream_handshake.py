"""How every stream of the data side begins: with a hello of this cluster; requests only with credit for them.

The inboxes check what each message needs; here is what a hello is answered with, and what becomes of a stream whose
peer does not keep to that.
"""

from __future__ import annotations

from barnabas.channel.messages import Hello, Welcome
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.streams import Stream


class StreamHandshake:
    def __init__(self, replicas: Replicas, outbox: Outbox) -> None:
        self._replicas = replicas
        self._outbox = outbox

    def greet(self, stream: Stream, hello: Hello) -> Welcome | None:
        """Return None if the stream is closed."""
        if stream.greeted:
            self.close(stream, "a second hello")
            return None
        cluster_id = self._replicas.cluster_id
        if hello.cluster_id not in ("", cluster_id):
            self.close(stream, f"cluster {hello.cluster_id} is not this one, {cluster_id}")
            return None
        stream.greeted = True
        return Welcome(self._replicas.node_id, self._replicas.broker_epoch)

    def refuse(self, stream: Stream) -> None:
        """Close a stream whose peer has sent requests before its hello, or more than it had credit for."""
        self.close(
            stream, "more requests than there was credit for" if stream.greeted else "the first message is no hello"
        )

    def close(self, stream: Stream, reason: str) -> None:
        """Have the host close a stream; it reports the end by `on_stream_closed` like any other."""
        stream.closed = True
        self._outbox.close(stream.stream_id, reason)
