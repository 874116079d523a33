"""The streams of a logstore: those that others open to it, and those that it opens to the leaders that it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    ExchangeRequest,
    ReadRequest,
    ReplicateRequest,
    ReplicateResponse,
    WatchRequest,
)
from barnabas.cluster.administration import AdministrationRequest
from barnabas.cluster.messages import ControlRequest
from barnabas_logstore.core.replica.containment import MESSAGE
from barnabas_logstore.core.streams.outbox import PeerLink, TransactionOutputs
from barnabas_logstore.core.streams.replication_outbox import LeaderLink
from tests.sim.fencing import ReplicationFence
from tests.sim.links import Link
from tests.sim.protocols import COORDINATE, REPLICATE
from tests.sim.scheduler import InvariantViolation

if TYPE_CHECKING:
    from tests.sim.nodes.logstore import LogstoreNode


def _contains(node: LogstoreNode, peer: str, take: Callable[..., object], *message: Any) -> bool:
    """Have the core take a message. Return whether that ended in an exception, which costs the stream."""
    try:
        take(*message)
    except InvariantViolation:
        raise
    except Exception as error:
        assert node.core is not None
        node.core.contained.contain(MESSAGE, error, {"peer": peer})
        return True
    return False


class LeaderStream(Link):
    """The stream to one life of a leader."""

    def __init__(self, node: LogstoreNode, wanted: LeaderLink) -> None:
        self.wanted = wanted
        self._node = node
        super().__init__(
            node,
            REPLICATE,
            wanted.leader.data_address,
            hello=ReplicateRequest(hello=wanted.hello),
            on_up=self._say,
            on_message=self._say,
            on_down=self._down,
        )

    def _say(self, response: ReplicateResponse) -> None:
        assert self._node.core is not None
        leader_id, fence = self.wanted.leader.node_id, ReplicationFence(self._node.core)
        if response.piece is not None:
            fence.hearing(leader_id, response.piece)
        if _contains(self._node, f"logstore-{leader_id}", self._node.core.on_leader_response, leader_id, response):
            self.reset("an internal error")
        else:
            fence.heard()
        self._node.turn_soon()

    def _down(self, reason: str) -> None:
        if self._node.core is not None:
            self._node.core.on_leader_lost(self.wanted.leader.node_id)
            self._node.turn_soon()


class CoordinatorStream(Link):
    """The stream by which this logstore's coordinators of transactions call another logstore."""

    def __init__(self, node: LogstoreNode, wanted: PeerLink) -> None:
        self.wanted = wanted
        self._node = node
        super().__init__(
            node,
            COORDINATE,
            wanted.peer.data_address,
            hello=CoordinateRequest(hello=wanted.hello),
            on_up=self._say,
            on_message=self._say,
            on_down=self._down,
        )

    def _say(self, response: CoordinateResponse) -> None:
        assert self._node.core is not None
        node_id, takes = self.wanted.peer.node_id, self._node.core.transactions.on_peer_response
        if _contains(self._node, f"logstore-{node_id}", takes, node_id, response):
            self.reset("an internal error")
        self._node.turn_soon()

    def _down(self, reason: str) -> None:
        if self._node.core is not None:
            self._node.core.transactions.on_peer_lost(self.wanted.peer.node_id)
            self._node.turn_soon()


class CoordinatorStreams:
    """All of them, by the logstores that they lead to."""

    def __init__(self, node: LogstoreNode) -> None:
        self._node = node
        self._streams: dict[int, CoordinatorStream] = {}

    def send(self, outputs: TransactionOutputs) -> None:
        if outputs.links is not None:
            for node_id, stream in list(self._streams.items()):
                if stream.wanted not in outputs.links:
                    stream.close()
                    del self._streams[node_id]
            for wanted in outputs.links:
                if wanted.peer.node_id not in self._streams:
                    self._streams[wanted.peer.node_id] = CoordinatorStream(self._node, wanted)
        for node_id, request in outputs.requests:
            if node_id in self._streams:
                self._streams[node_id].send(request)

    def clear(self) -> None:
        """The process is gone, and they with it."""
        self._streams.clear()


class DataStream:
    """Exchange, Read, Coordinate, Watch, Replicate, or one call of Administration: which one, its messages tell."""

    def __init__(self, node: LogstoreNode, stream_id: int) -> None:
        self._node = node
        self._stream_id = stream_id

    def on_message(
        self,
        message: ExchangeRequest
        | ReadRequest
        | CoordinateRequest
        | WatchRequest
        | ReplicateRequest
        | AdministrationRequest,
    ) -> None:
        core = self._node.core
        assert core is not None
        has_failed = False
        match message:
            case ReplicateRequest():
                fence = ReplicationFence(core)
                if message.fetch is not None:
                    fence.fetching(self._stream_id, message.fetch)
                has_failed = self._fails(core.on_replicate, message)
                fence.fetched()
            case ExchangeRequest():
                self._node.append_fence.received(self._stream_id, message.appends)
                has_failed = self._fails(core.on_exchange, message)
            case ReadRequest():
                has_failed = self._fails(core.on_read, message)
            case CoordinateRequest():
                has_failed = self._fails(core.on_coordinate, message)
            case WatchRequest():
                has_failed = self._fails(core.on_watch, message)
            case _:
                has_failed = not core.on_administration(self._stream_id, message)
        if has_failed:
            self._node.refuse(self._stream_id)
        self._node.turn_soon()

    def _fails(self, take: Callable[[int, Any], object], message: object) -> bool:
        return _contains(self._node, f"stream {self._stream_id}", take, self._stream_id, message)

    def on_closed(self, reason: str) -> None:
        self._node.stream_closed(self._stream_id)


class ControlSession:
    def __init__(self, node: LogstoreNode, session_id: int) -> None:
        self._node = node
        self._session_id = session_id

    def on_message(self, message: ControlRequest) -> None:
        if not message.heartbeat:
            self._node.command(self._session_id, message)

    def on_closed(self, reason: str) -> None:
        self._node.stream_closed(self._session_id)
