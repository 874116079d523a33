"""The streams to other logstores: one of each kind to each, as the core requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from barnabas.channel.generated.packing import (
    pack_coordinate_request,
    pack_replicate_request,
    scan_coordinate_response,
    scan_replicate_response,
)
from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    ReplicateRequest,
    ReplicateResponse,
    Welcome,
)
from barnabas.channel.shared_records import SHARED_BYTES, SharedInbox, resolve
from barnabas.cluster.messages import Broker
from barnabas.containment import Uncontained
from barnabas.runtime.logs import get_logger
from barnabas.runtime.streams import StreamLink
from barnabas_logstore.core.replica.containment import MESSAGE
from barnabas_logstore.core.streams.outbox import PeerLink
from barnabas_logstore.core.streams.replication_outbox import LeaderLink
from barnabas_logstore.shell.driver import LogstoreDriver

REPLICATE: Final = "/barnabas.logstore.v1.Replication/Replicate"
COORDINATE: Final = "/barnabas.logstore.v1.Coordination/Coordinate"

_log = get_logger("logstore.links")


class _Wanted(Protocol):
    @property
    def peer(self) -> Broker: ...


class _Response(Protocol):
    welcome: Welcome | None


Wanted = TypeVar("Wanted", bound=_Wanted)
Requested = TypeVar("Requested")
Responded = TypeVar("Responded", bound=_Response)


class StreamKind(NamedTuple, Generic[Wanted, Requested, Responded]):
    """How a stream of one kind speaks, and what the core gets of it."""

    method: str
    hello_of: Callable[[Wanted], Requested]
    heartbeat_of: Callable[[int], Requested]
    pack: Callable[[Requested], bytes]
    scan: Callable[[bytes], Responded]
    on_response: Callable[[int, Responded], None]
    on_lost: Callable[[int], None]
    resolve: Callable[[Responded, SharedInbox | None], None] | None = None
    """Gives a response the records that the other logstore shares, instead of sending them."""


class LogstoreLinks(Generic[Wanted, Requested, Responded]):
    """Between a welcome and the reported loss, all messages of a logstore come from one stream."""

    def __init__(self, loop: LogstoreDriver, kind: StreamKind[Wanted, Requested, Responded]) -> None:
        self._loop = loop
        self._kind = kind
        self._wanted: Sequence[Wanted] = []
        self._changed = asyncio.Event()
        self._links: dict[int, _Link[Wanted, Requested, Responded]] = {}

    def send(self, links: Sequence[Wanted] | None, requests: Iterable[tuple[int, Requested]]) -> None:
        """One turn's messages by node id; `links`: the streams that are wanted from now on, or None: as before."""
        if links is not None:
            self._wanted = links
            self._changed.set()
        for node_id, request in requests:
            link = self._links.get(node_id)
            if link is not None:
                link.stream.send(self._kind.pack(request))

    async def run(self) -> None:
        """Open and close streams as the core requests, until cancelled; then close all."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._close_unwanted()
                for wanted in self._wanted:
                    node_id = wanted.peer.node_id
                    if node_id not in self._links:
                        self._links[node_id] = _Link(wanted, self._loop, self._kind)
        finally:
            self._wanted = []
            await self._close_unwanted()

    async def _close_unwanted(self) -> None:
        """The end of the old stream is reported before the beginning of a new one."""
        for node_id, link in list(self._links.items()):
            if link.wanted not in self._wanted:
                await link.stream.close()
                del self._links[node_id]


class _Link(Generic[Wanted, Requested, Responded]):
    """The stream to one incarnation of a logstore; another process at its address is rejected."""

    def __init__(self, wanted: Wanted, loop: LogstoreDriver, kind: StreamKind[Wanted, Requested, Responded]) -> None:
        self.wanted = wanted
        self._node_id = wanted.peer.node_id
        self._loop = loop
        self._kind = kind
        self._is_up = False
        self.stream = StreamLink(
            wanted.peer.data_address,
            kind.method,
            hello=kind.pack(kind.hello_of(wanted)),
            pack_heartbeat=lambda count: kind.pack(kind.heartbeat_of(count)),
            on_up=self._up,
            on_message=self._message,
            on_down=self._down,
        )
        if kind.resolve is not None:
            self.stream.shared_bytes = SHARED_BYTES
        self.stream.start()

    def _up(self, first: bytes) -> None:
        welcome = self._kind.scan(first).welcome
        if welcome is None or welcome.node_id != self._node_id:
            self.stream.reset(f"{self.wanted.peer.data_address} is not logstore {self._node_id}")
            return
        self._is_up = True
        self._message(first)

    def _message(self, data: bytes) -> None:
        if self._is_up:
            kind = self._kind
            response = kind.scan(data)
            if kind.resolve is not None:
                kind.resolve(response, self.stream.inbox)
            try:
                kind.on_response(self._node_id, response)
            except Uncontained as error:
                self._loop.fail(error)
            except Exception as error:
                named: dict[str, str | int] = {"node_id": self._node_id, "method": kind.method}
                self._loop.core.contained.contain(MESSAGE, error, named)
                self.stream.reset("an internal error")
            self._loop.wake()

    def _down(self, reason: str) -> None:
        if self._is_up:
            self._is_up = False
            _log.info("logstore lost", method=self._kind.method, node_id=self._node_id, reason=reason)
            try:
                self._kind.on_lost(self._node_id)
            except (Exception, Uncontained) as error:
                self._loop.fail(error)
            self._loop.wake()


ReplicaLinks: TypeAlias = LogstoreLinks[LeaderLink, ReplicateRequest, ReplicateResponse]
CoordinateLinks: TypeAlias = LogstoreLinks[PeerLink, CoordinateRequest, CoordinateResponse]


def replica_links(loop: LogstoreDriver) -> ReplicaLinks:
    """Return the streams to the leaders of our partitions."""
    kind: StreamKind[LeaderLink, ReplicateRequest, ReplicateResponse] = StreamKind(
        REPLICATE,
        lambda wanted: ReplicateRequest(hello=wanted.hello),
        lambda count: ReplicateRequest(heartbeat=count),
        pack_replicate_request,
        scan_replicate_response,
        loop.core.on_leader_response,
        loop.core.on_leader_lost,
        _resolve_replicated,
    )
    return LogstoreLinks(loop, kind)


def _resolve_replicated(response: ReplicateResponse, inbox: SharedInbox | None) -> None:
    if response.shared:
        resolve(response.shared, response.piece.partitions if response.piece is not None else [], inbox)
        response.shared = []


def coordinate_links(loop: LogstoreDriver) -> CoordinateLinks:
    """Return the streams by which our coordinators call other logstores."""
    kind: StreamKind[PeerLink, CoordinateRequest, CoordinateResponse] = StreamKind(
        COORDINATE,
        lambda wanted: CoordinateRequest(hello=wanted.hello),
        lambda count: CoordinateRequest(heartbeat=count),
        pack_coordinate_request,
        scan_coordinate_response,
        loop.core.transactions.on_peer_response,
        loop.core.transactions.on_peer_lost,
    )
    return LogstoreLinks(loop, kind)
