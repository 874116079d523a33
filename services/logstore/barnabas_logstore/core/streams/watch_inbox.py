"""Watch streams of purgatory pods: what they follow from now on, and what no longer."""

from __future__ import annotations

from barnabas.channel.messages import WatchRequest
from barnabas_logstore.core.streams.group_watches import GroupWatches
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.stream_handshake import StreamHandshake
from barnabas_logstore.core.streams.streams import WatchStream
from barnabas_logstore.core.streams.watches import Watches


class WatchInbox:
    def __init__(
        self, handshake: StreamHandshake, outbox: Outbox, watches: Watches, group_watches: GroupWatches
    ) -> None:
        self._handshake = handshake
        self._outbox = outbox
        self._watches = watches
        self._group_watches = group_watches
        self._streams: dict[int, WatchStream] = {}

    def on_watch(self, stream_id: int, request: WatchRequest) -> None:
        """Take a message of a pod; a stream exists from its first one on."""
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = self._streams[stream_id] = WatchStream(stream_id)
        if stream.closed:
            return
        if request.hello is not None:
            welcome = self._handshake.greet(stream, request.hello)
            if welcome is None:
                return
            self._outbox.watch_response(stream).welcome = welcome
        if not stream.greeted:
            self._handshake.refuse(stream)
            return
        for watched in request.unwatches:
            self._watches.unwatch(stream, watched)
        for watched in request.watches:
            self._watches.watch(stream, watched)
        for group in request.group_unwatches:
            self._group_watches.unwatch(stream, group)
        for group in request.group_watches:
            self._group_watches.watch(stream, group)

    def on_stream_closed(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            stream.closed = True
            self._watches.close(stream)
            self._group_watches.close(stream)
