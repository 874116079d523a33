"""Long-lived bidirectional gRPC streams of opaque bytes: the base of every channel between the services.

Both sides send heartbeats every 500 ms, if they have nothing else to send, and treat 3 s of silence as death: TCP alone
notices a peer that was paused or cut off only after many minutes. The client reconnects automatically, after 50 ms to
1 s. Callbacks run on the event loop, one at a time and in order; an exception from one ends the stream, never the
process, and is counted (`barnabas.runtime.contained`). Between processes of one host messages go by a lane
(`barnabas.runtime.conversation`), which callers see nothing of.

Messages are bytes with identity serializers. `read()` and `write()` are used rather than async iterators: as fast for
small messages and bulk, and the side that reads can pause. Measured on two shared cores, both sides in one process:
about 20 µs per small message and operation (16 of them gRPC's own), 0.6–1.1 ms for 1 MB from one side to the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final, Protocol, TypeAlias

import grpc
import grpc.aio

from barnabas.channel.shared_records import SharedInbox, SharedOutbox
from barnabas.cluster.access.service_permissions import role_that_serves
from barnabas.runtime import lane, lane_offers, shared_memory
from barnabas.runtime.contained import CONTAINED, LINK
from barnabas.runtime.conversation import Conversation, OnMessage
from barnabas.runtime.inter_service import identity
from barnabas.runtime.inter_service.identity import Certified
from barnabas.runtime.lane import Descriptor, OnDescriptors
from barnabas.runtime.lane_offers import LaneRefusedError
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.rpc import Options, create_channel
from barnabas.runtime.stream_meter import STREAMS

BACKOFF_MS_MIN: Final = 50
BACKOFF_MS_MAX: Final = 1000

# Far above what credits allow to be outstanding on one stream: only a broken peer reaches it.
PENDING_BYTES_MAX: Final = 512 << 20

LANE_AFTER_LOSS_MS: Final = 30_000
"""How long a link whose lane was lost, while gRPC went on, takes no other."""

_log = get_logger("streams")


Packing: TypeAlias = lane.Packing


class StreamHandler(Protocol):
    """What a service does with one stream that a client has opened."""

    def on_message(self, data: bytes) -> Awaitable[None] | None:
        """One message of the client, in order; the next one is delivered when the returned awaitable is done."""

    def on_closed(self, reason: str) -> None:
        """The stream is closed; called exactly once, and last."""

    def pack_heartbeat(self, count: int) -> bytes:
        """The heartbeat message to send; `count` goes up from 1."""


class StreamLink:
    """The client's end: one stream to one address, opened again whenever it is lost.

    Each attempt has its own channel, and so its own connection: streams do not share a flow control window, and an
    attempt never waits for gRPC's backoff. Between `on_up` and the one `on_down` that follows the link is up; a failed
    attempt calls neither. Messages sent while it is down are dropped: `on_down` has been called.
    """

    def __init__(
        self,
        address: str,
        method: str,
        *,
        hello: bytes,
        pack_heartbeat: Callable[[int], bytes],
        on_up: OnMessage,
        on_message: OnMessage,
        on_down: Callable[[str], None],
        options: Options = (),
    ) -> None:
        """`method` is the whole path, "/barnabas.logstore.v1.DataChannel/Exchange"; `on_up` gets the first message."""
        self.address = address
        self.method = method
        self._hello = hello
        self._pack_heartbeat = pack_heartbeat
        self._on_up = on_up
        self._on_message = on_message
        self._on_down = on_down
        self._random = Random()
        self._options = options
        self.shared_bytes = 0
        """To be set before `start`, if at all: size of the memory by which the server may share records."""
        self.inbox: SharedInbox | None = None
        """Where the server of the present stream puts the records that it shares."""
        self.on_descriptors: OnDescriptors | None = None
        """To be set before `start`, if at all: gets descriptors that come along with a message by a lane, before it."""
        self._conversation: Conversation | None = None
        self._call: grpc.aio.StreamStreamCall[bytes, bytes] | None = None
        self._no_lane_until = 0.0
        self._up = False
        self._up_since = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        return self._up

    @property
    def pending_bytes(self) -> int:
        """Bytes sent and not yet accepted by gRPC, or by the lane's socket."""
        return self._conversation.pending_bytes if self._conversation is not None else 0

    @property
    def is_on_lane(self) -> bool:
        """Whether descriptors can come along with messages."""
        return self._conversation is not None and self._conversation.sends_by_lane

    @property
    def outbox(self) -> SharedOutbox | None:
        """Where records may be put instead of being sent, if the server has created memory for that."""
        return self._conversation.outbox if self._conversation is not None else None

    def start(self) -> None:
        """Connect, and stay connected until `close`."""
        assert self._task is None, "a link starts once"
        self._task = BackgroundTasks(LINK).keep(self._run)

    def send(self, data: bytes) -> None:
        """Queue one message; it is sent in the next turn if nothing else is being written."""
        if self._up and self._conversation is not None:
            self._conversation.send(data)

    def send_when_packed(self, packing: Packing) -> None:
        """Queue one large message, which is packed at its turn; what is sent later waits for it."""
        if self._up and self._conversation is not None:
            self._conversation.send_when_packed(packing)

    def reset(self, reason: str) -> None:
        """Close the present stream, because of what the caller has seen in it, and connect again."""
        if self._conversation is not None:
            self._conversation.end(reason)

    async def close(self) -> None:
        """Close permanently; calls `on_down` if the link was up."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            # Not `await`, whose CancelledError could be the caller's own as well as the task's.
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    async def _run(self) -> None:
        backoff_ms = BACKOFF_MS_MIN
        loop = asyncio.get_running_loop()
        while True:
            self._up_since = 0.0
            reason = await self._converse()
            (STREAMS.lost if self._up_since else STREAMS.failed)[self.method] += 1
            log = _log.info if self._up_since else _log.debug
            log("link down", address=self.address, method=self.method, reason=reason)
            # A peer that accepts and drops at once is not retried more often than one that refuses.
            if self._up_since and loop.time() - self._up_since >= BACKOFF_MS_MAX / 1000:
                backoff_ms = BACKOFF_MS_MIN
            await asyncio.sleep(backoff_ms * self._random.uniform(0.8, 1.2) / 1000)
            backoff_ms = min(2 * backoff_ms, BACKOFF_MS_MAX)

    async def _converse(self) -> str:
        channel = create_channel(self.address, role_that_serves(self.method), options=self._options)
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(self.method, None, None)(None)
        conversation = Conversation(
            call.read, call.write, self._take, self._pack_heartbeat, PENDING_BYTES_MAX, self.on_descriptors
        )
        conversation.send(self._hello)
        self._conversation, self._call = conversation, call
        reason = "closed here"
        try:
            reason = await conversation.run()
        finally:
            self._conversation = self._call = self.inbox = None
            call.cancel()
            if conversation.has_lost_lane:
                STREAMS.lanes_lost[self.method] += 1
                self._no_lane_until = asyncio.get_running_loop().time() + LANE_AFTER_LOSS_MS / 1000
            if self._up:
                self._up = False
                self._call_down(reason)
            await channel.close(None)
        return reason

    def _take(self, data: bytes) -> Awaitable[None] | None:
        if self._up:
            return self._on_message(data)
        if lane_offers.is_on() and asyncio.get_running_loop().time() >= self._no_lane_until:
            return self._come_up_by_lane(data)
        return self._come_up(data)

    async def _come_up_by_lane(self, data: bytes) -> None:
        """Take the lane if the server offers one, before anything else is sent."""
        assert self._call is not None
        assert self._conversation is not None
        memory, inbox = _create_inbox(self.shared_bytes)
        try:
            connected = await lane_offers.connect(await self._call.initial_metadata(), memory)
        except LaneRefusedError as refusal:
            STREAMS.lanes_refused[self.method] += 1
            _log.debug("no lane", address=self.address, method=self.method, reason=str(refusal))
        else:
            if connected is not None:
                self.inbox = inbox
                self._conversation.take_lane(*connected)
                STREAMS.lanes_opened[self.method] += 1
        working = self._come_up(data)
        if working is not None:
            await working

    def _come_up(self, data: bytes) -> Awaitable[None] | None:
        self._up = True
        self._up_since = asyncio.get_running_loop().time()
        STREAMS.opened[self.method] += 1
        return self._on_up(data)

    def _call_down(self, reason: str) -> None:
        try:
            self._on_down(reason)
        except Exception as error:
            CONTAINED.contain(LINK, error, {"address": self.address, "method": self.method})


class ServerStream:
    """The server's end of one stream.

    What waits to be sent is bounded: a handler that has much to send checks `pending_bytes` and holds back (the data
    channel's credits do that); beyond the bound the stream is closed, with one log line. A message larger than the
    bound passes if nothing else waits.
    """

    __slots__ = ("_conversation", "caller", "inbox", "peer")

    def __init__(
        self,
        peer: str,
        conversation: Conversation,
        inbox: SharedInbox | None,
        caller: Certified | None = None,
    ) -> None:
        self.peer = peer
        self.caller = caller
        """What the client's certificate says; None without mutual TLS."""
        self._conversation = conversation
        self.inbox = inbox
        """Where the client puts the records that it shares."""

    @property
    def pending_bytes(self) -> int:
        """Bytes sent and not yet accepted by gRPC, or by the lane's socket."""
        return self._conversation.pending_bytes

    @property
    def is_on_lane(self) -> bool:
        """Whether `send` takes descriptors."""
        return self._conversation.sends_by_lane

    @property
    def outbox(self) -> SharedOutbox | None:
        """Where records may be put instead of being sent, if the client has created memory for that."""
        return self._conversation.outbox

    def send(self, data: bytes, descriptors: Sequence[Descriptor] = ()) -> None:
        """Queue one message; it is sent in the next turn if nothing else is being written. The client gets the
        descriptors before it, if the stream is on a lane.
        """
        self._conversation.send(data, descriptors)

    def send_when_packed(self, packing: Packing) -> None:
        """Queue one large message, which is packed at its turn; what is sent later waits for it. The stream is closed
        if a thousand of them wait.
        """
        self._conversation.send_when_packed(packing)

    def close(self, reason: str) -> None:
        """End the stream with UNAVAILABLE and the reason; what waits to be sent is dropped."""
        self._conversation.end(reason)

    def pause(self) -> None:
        """Stop reading until `resume`: the last resort, as gRPC then fills its windows and the client stops writing.

        One message that is being read may still come. The silence of a paused stream does not count as death.
        """
        self._conversation.pause()

    def resume(self) -> None:
        """Read on."""
        self._conversation.resume()


class _Incoming:
    """Passes a stream's messages to its handler, which exists only once the stream does."""

    __slots__ = ("handler",)

    handler: StreamHandler

    def on_message(self, data: bytes) -> Awaitable[None] | None:
        return self.handler.on_message(data)

    def pack_heartbeat(self, count: int) -> bytes:
        return self.handler.pack_heartbeat(count)


def register_stream(
    server: grpc.aio.Server,
    service: str,
    method: str,
    open_stream: Callable[[ServerStream], StreamHandler],
    *,
    pending_bytes_max: int = PENDING_BYTES_MAX,
    shared_bytes: int = 0,
) -> None:
    """Serve `/service/method` ("barnabas.logstore.v1.DataChannel", "Exchange"): `open_stream` for each that opens.
    `shared_bytes`: size of the memory by which each client may share records.

    Call it before the server starts; several methods of one service are registered one by one.
    """

    async def serve(_requests: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        incoming = _Incoming()
        conversation = Conversation(
            context.read, context.write, incoming.on_message, incoming.pack_heartbeat, pending_bytes_max
        )
        memory, inbox = _create_inbox(shared_bytes) if lane_offers.is_on() else (None, None)
        stream = ServerStream(context.peer(), conversation, inbox, identity.certified(context))
        incoming.handler = open_stream(stream)
        offer = lane_offers.offer(conversation.accept_lane, memory)
        reason = "cancelled by the peer or the server's stop"
        try:
            if offer is not None:
                await context.send_initial_metadata(offer.metadata)
            reason = await conversation.run()
        finally:
            if offer is not None:
                offer.close()
            _log.info("stream closed", method=method, peer=stream.peer, reason=reason)
            incoming.handler.on_closed(reason)
        await context.abort(grpc.StatusCode.UNAVAILABLE, reason)

    handlers = {method: grpc.stream_stream_rpc_method_handler(serve)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))


def _create_inbox(shared_bytes: int) -> tuple[Descriptor | None, SharedInbox | None]:
    """Create the memory of a stream's inbox; None if it has none, or if the system gives none: all is sent then."""
    if not shared_bytes:
        return None, None
    try:
        descriptor, memory = shared_memory.create(shared_bytes)
    except OSError as error:
        _log.warning("no memory to share", reason=str(error))
        return None, None
    return descriptor, SharedInbox(memory)
