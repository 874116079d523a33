"""The data listener: DataChannel.Exchange and .Read, Coordination.Coordinate, PartitionWatch.Watch and
Replication.Replicate, as bytes packed by `barnabas.channel.generated.packing`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

import grpc.aio

from barnabas.channel.generated.packing import (
    pack_coordinate_response,
    pack_exchange_response,
    pack_read_response,
    pack_replicate_response,
    pack_watch_response,
    scan_coordinate_request,
    scan_exchange_request,
    scan_read_request,
    scan_replicate_request,
    scan_watch_request,
)
from barnabas.channel.messages import (
    CoordinateResponse,
    ExchangeRequest,
    ExchangeResponse,
    ReadRequest,
    ReadResponse,
    ReplicateRequest,
    ReplicateResponse,
    WatchResponse,
)
from barnabas.channel.packing_in_steps import scan_read_request_in_steps
from barnabas.channel.range_files import HandedFiles
from barnabas.channel.shared_records import SHARED_BYTES, resolve
from barnabas.cluster.keys import Role
from barnabas.containment import Uncontained
from barnabas.runtime.inter_service.identity import is_itself
from barnabas.runtime.large_messages import LARGE_BYTES, over_turns
from barnabas.runtime.streams import ServerStream, StreamHandler, register_stream
from barnabas.wire.primitives import Steps
from barnabas_logstore.core.replica.containment import MESSAGE
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.shell.driver import LogstoreDriver
from barnabas_logstore.shell.open_files import read_only
from barnabas_protos.logstore.v1 import coordination_pb2, data_pb2, replication_pb2, watch_pb2

DATA_SERVICE: Final[str] = data_pb2.DESCRIPTOR.services_by_name["DataChannel"].full_name
WATCH_SERVICE: Final[str] = watch_pb2.DESCRIPTOR.services_by_name["PartitionWatch"].full_name
REPLICATION_SERVICE: Final[str] = replication_pb2.DESCRIPTOR.services_by_name["Replication"].full_name

COORDINATION_SERVICE: Final[str] = coordination_pb2.DESCRIPTOR.services_by_name["Coordination"].full_name
LISTENER_SERVICES: Final = (DATA_SERVICE, COORDINATION_SERVICE, WATCH_SERVICE, REPLICATION_SERVICE)


class _Message(Protocol):
    heartbeat: int


M = TypeVar("M", bound=_Message)


class DataListener:
    """Streams of all five kinds, by their own ids. Until `serve` they are refused: the logs are being loaded."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._loop: LogstoreDriver | None = None
        self._streams: dict[int, ServerStream] = {}
        self._streams_opened = 0
        self._handed: dict[int, HandedFiles] = {}
        """Of each Read stream."""
        register_stream(server, DATA_SERVICE, "Exchange", self._open_exchange, shared_bytes=SHARED_BYTES)
        register_stream(server, DATA_SERVICE, "Read", self._open_read)
        register_stream(server, COORDINATION_SERVICE, "Coordinate", self._open_coordinate)
        register_stream(server, WATCH_SERVICE, "Watch", self._open_watch)
        register_stream(server, REPLICATION_SERVICE, "Replicate", self._open_replicate)

    def serve(self, loop: LogstoreDriver) -> None:
        """Accept streams from now on."""
        self._loop = loop

    def send(self, outputs: Outputs) -> None:
        """Send one turn's messages, then close the streams that are to be closed."""
        streams = self._streams
        for stream_id, exchanged in outputs.exchanges:
            streams[stream_id].send(pack_exchange_response(exchanged))
        for stream_id, read in outputs.reads:
            self._send_read(stream_id, read)
        for stream_id, coordinated in outputs.coordinations:
            streams[stream_id].send(pack_coordinate_response(coordinated))
        for stream_id, watched in outputs.watches:
            streams[stream_id].send(pack_watch_response(watched))
        replication = outputs.replication
        for stream_id, answered in replication.responses:
            outbox = streams[stream_id].outbox
            if outbox is not None:
                outbox.share_replicated(answered)
            streams[stream_id].send(pack_replicate_response(answered))
        if outputs.closes or replication.closes:
            for stream_id, reason in (*outputs.closes, *replication.closes):
                if stream_id in streams:
                    streams[stream_id].close(reason)

    def _send_read(self, stream_id: int, response: ReadResponse) -> None:
        stream = self._streams[stream_id]
        try:
            descriptors = [read_only(file) for file in self._handed[stream_id].number_ranges(response)]
        except OSError as error:
            stream.close(f"a file can't be handed over: {error}")
            return
        stream.send(pack_read_response(response), descriptors)

    def _open_exchange(self, stream: ServerStream) -> StreamHandler:
        if self._loop is None:
            return _refuse(stream)
        core = self._loop.core
        inbox = stream.inbox

        def scan(data: bytes) -> ExchangeRequest:
            request = scan_exchange_request(data)
            if request.shared:
                resolve(request.shared, request.appends, inbox)
                request.shared = []
            return request

        return _Stream(self, self._loop, stream, scan, core.on_exchange, _exchange_heartbeat)

    def _open_read(self, stream: ServerStream) -> StreamHandler:
        if self._loop is None:
            return _refuse(stream)
        handed = HandedFiles()
        core = self._loop.core

        def take(stream_id: int, request: ReadRequest) -> None:
            if not stream.is_on_lane:
                for read in request.reads:
                    read.accepts_ranges = False
            core.on_read(stream_id, request)

        def heartbeat(count: int) -> bytes:
            response = ReadResponse(heartbeat=count)
            handed.close_ended(response)
            return pack_read_response(response)

        opened = _Stream(self, self._loop, stream, scan_read_request, take, heartbeat, scan_read_request_in_steps)
        self._handed[opened.stream_id] = handed
        return opened

    def _open_coordinate(self, stream: ServerStream) -> StreamHandler:
        if self._loop is None:
            return _refuse(stream)
        core = self._loop.core
        return _Stream(self, self._loop, stream, scan_coordinate_request, core.on_coordinate, _coordinate_heartbeat)

    def _open_watch(self, stream: ServerStream) -> StreamHandler:
        if self._loop is None:
            return _refuse(stream)
        return _Stream(self, self._loop, stream, scan_watch_request, self._loop.core.on_watch, _watch_heartbeat)

    def _open_replicate(self, stream: ServerStream) -> StreamHandler:
        if self._loop is None:
            return _refuse(stream)
        core = self._loop.core

        def on_replicate(stream_id: int, request: ReplicateRequest) -> None:
            hello = request.hello
            if hello is not None and not is_itself(stream.caller, Role.LOGSTORE, str(hello.replica_id)):
                stream.close(f"the certificate is none of logstore {hello.replica_id}")
                return
            core.on_replicate(stream_id, request)

        return _Stream(self, self._loop, stream, scan_replicate_request, on_replicate, _replicate_heartbeat)

    def add(self, stream: ServerStream) -> int:
        """Return a new stream's id."""
        self._streams_opened += 1
        self._streams[self._streams_opened] = stream
        return self._streams_opened

    def remove(self, stream_id: int) -> None:
        del self._streams[stream_id]
        self._handed.pop(stream_id, None)


class _Stream(Generic[M]):
    """One stream: each message is decoded, passed to the core, and requests a turn; heartbeats do not."""

    __slots__ = ("_core_takes", "_listener", "_loop", "_pack_heartbeat", "_scan", "_scan_large", "_stream", "stream_id")

    def __init__(
        self,
        listener: DataListener,
        loop: LogstoreDriver,
        stream: ServerStream,
        scan: Callable[[bytes], M],
        core_takes: Callable[[int, M], None],
        pack_heartbeat: Callable[[int], bytes],
        scan_large: Callable[[bytes], Steps[M]] | None = None,
    ) -> None:
        """`scan_large` decodes large messages over several turns, if the stream may have any."""
        self._listener = listener
        self._loop = loop
        self._stream = stream
        self._scan = scan
        self._core_takes = core_takes
        self._pack_heartbeat = pack_heartbeat
        self._scan_large = scan_large
        self.stream_id = listener.add(stream)

    def on_message(self, data: bytes) -> Awaitable[None] | None:
        scan_large = self._scan_large
        if scan_large is not None and len(data) >= LARGE_BYTES:
            return self._read_large(scan_large(data))
        self._take(self._scan(data))
        return None

    async def _read_large(self, steps: Steps[M]) -> None:
        self._take(await over_turns(steps))

    def _take(self, message: M) -> None:
        if message.heartbeat:
            return
        try:
            self._core_takes(self.stream_id, message)
        except Uncontained as uncontained:
            self._loop.fail(uncontained)
        except Exception as error:
            self._loop.core.contained.contain(MESSAGE, error, {"stream_id": self.stream_id, "peer": self._stream.peer})
            self._stream.close("an internal error")
        self._loop.wake()

    def on_closed(self, reason: str) -> None:
        self._listener.remove(self.stream_id)
        try:
            self._loop.core.on_stream_closed(self.stream_id)
        except (Exception, Uncontained) as error:
            self._loop.fail(error)
        self._loop.wake()

    def pack_heartbeat(self, count: int) -> bytes:
        return self._pack_heartbeat(count)


class _Refused:
    """A stream that came too early."""

    def on_message(self, data: bytes) -> None:
        pass

    def on_closed(self, reason: str) -> None:
        pass

    def pack_heartbeat(self, count: int) -> bytes:
        return b""


def _refuse(stream: ServerStream) -> StreamHandler:
    stream.close("the logs are being loaded")
    return _Refused()


def _exchange_heartbeat(count: int) -> bytes:
    return pack_exchange_response(ExchangeResponse(heartbeat=count))


def _coordinate_heartbeat(count: int) -> bytes:
    return pack_coordinate_response(CoordinateResponse(heartbeat=count))


def _watch_heartbeat(count: int) -> bytes:
    return pack_watch_response(WatchResponse(heartbeat=count))


def _replicate_heartbeat(count: int) -> bytes:
    return pack_replicate_response(ReplicateResponse(heartbeat=count))
