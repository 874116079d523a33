"""The streams to the leaders of our partitions: one to each, as the core asks for them."""

from __future__ import annotations

import asyncio
from typing import Final

from barnabas.channel.messages import ReplicateRequest
from barnabas.channel.packing import pack_replicate_request, scan_replicate_response
from barnabas.runtime.logs import get_logger
from barnabas.runtime.streams import StreamLink
from barnabas_logstore.core.streams.replication_outbox import LeaderLink, ReplicationOutgoing
from barnabas_logstore.shell.loop import LogstoreLoop

REPLICATE: Final = "/barnabas.logstore.v1.Replication/Replicate"

_log = get_logger("replica.links")


class ReplicaLinks:
    """Between a welcome and the loss that is told, all messages of a leader come from one stream."""

    def __init__(self, loop: LogstoreLoop) -> None:
        self._loop = loop
        self._wanted: list[LeaderLink] = []
        self._changed = asyncio.Event()
        self._links: dict[int, _Link] = {}

    def send(self, outgoing: ReplicationOutgoing) -> None:
        """One turn's messages to leaders."""
        if outgoing.links is not None:
            self._wanted = outgoing.links
            self._changed.set()
        for leader_id, request in outgoing.requests:
            link = self._links.get(leader_id)
            if link is not None:
                link.stream.send(pack_replicate_request(request))

    async def run(self) -> None:
        """Open and close streams as the core wants them, until cancelled; then close all."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._close_unwanted()
                for wanted in self._wanted:
                    leader_id = wanted.leader.node_id
                    if leader_id not in self._links:
                        self._links[leader_id] = _Link(wanted, self._loop)
        finally:
            self._wanted = []
            await self._close_unwanted()

    async def _close_unwanted(self) -> None:
        """The old stream's end is told before a new one's beginning."""
        for leader_id, link in list(self._links.items()):
            if link.wanted not in self._wanted:
                await link.stream.close()
                del self._links[leader_id]


class _Link:
    """The stream to one incarnation of a leader; another process at its address is not believed."""

    def __init__(self, wanted: LeaderLink, loop: LogstoreLoop) -> None:
        self.wanted = wanted
        self._leader_id = wanted.leader.node_id
        self._loop = loop
        self._is_up = False
        self.stream = StreamLink(
            wanted.leader.data_address,
            REPLICATE,
            hello=pack_replicate_request(ReplicateRequest(hello=wanted.hello)),
            pack_heartbeat=lambda count: pack_replicate_request(ReplicateRequest(heartbeat=count)),
            on_up=self._up,
            on_message=self._message,
            on_down=self._down,
        )
        self.stream.start()

    def _up(self, first: bytes) -> None:
        welcome = scan_replicate_response(first).welcome
        if welcome is None or welcome.node_id != self._leader_id:
            self.stream.reset(f"{self.wanted.leader.data_address} is not logstore {self._leader_id}")
            return
        self._is_up = True
        self._message(first)

    def _message(self, data: bytes) -> None:
        if self._is_up:
            self._loop.core.on_leader_response(self._leader_id, scan_replicate_response(data))
            self._loop.wake()

    def _down(self, reason: str) -> None:
        if self._is_up:
            self._is_up = False
            _log.info("leader lost", node_id=self._leader_id, reason=reason)
            self._loop.core.on_leader_lost(self._leader_id)
            self._loop.wake()
