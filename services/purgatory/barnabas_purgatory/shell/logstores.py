"""The watch streams of a pod: one to every logstore of the cluster's image."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from barnabas.channel.generated.packing import pack_watch_request, scan_watch_response
from barnabas.channel.messages import GroupState, Hello, PartitionState, WatchRequest, WatchResponse
from barnabas.cluster.messages import Broker
from barnabas.runtime.logs import get_logger
from barnabas.runtime.streams import StreamLink

METHOD = "/barnabas.logstore.v1.PartitionWatch/Watch"

_log = get_logger("purgatory.logstores")


class LogstoreWatcher(Protocol):
    """Receives what the logstores report. Between an up and the next down of a node all states come from one stream."""

    def logstore_up(self, node_id: int) -> None: ...

    def partition_states(self, node_id: int, states: list[PartitionState]) -> None: ...

    def group_states(self, node_id: int, states: list[GroupState]) -> None: ...

    def logstore_down(self, node_id: int) -> None: ...


class LogstoreLinks:
    """Keeps a watch stream open to every broker that `follow` names."""

    def __init__(self, pod_id: str, watcher: LogstoreWatcher) -> None:
        self._pod_id = pod_id
        self._watcher = watcher
        self._cluster_id = ""
        self._wanted: dict[int, Broker] = {}
        self._links: dict[int, _LogstoreLink] = {}
        self._changed = asyncio.Event()

    def follow(self, cluster_id: str, brokers: Iterable[Broker]) -> None:
        """Keep streams to these logstores from now on; `run` closes the streams to all others."""
        self._cluster_id = cluster_id
        self._wanted = {broker.node_id: broker for broker in brokers}
        self._changed.set()

    def send(self, node_id: int, request: WatchRequest) -> None:
        link = self._links.get(node_id)
        if link is not None:
            link.stream.send(pack_watch_request(request))

    async def run(self) -> None:
        """Open and close streams as the image changes, until cancelled; then close all."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                for node_id, link in sorted(self._links.items()):
                    if self._wanted.get(node_id) != link.broker:
                        await self._close(node_id)
                for node_id, broker in sorted(self._wanted.items()):
                    if node_id not in self._links:
                        self._links[node_id] = _LogstoreLink(broker, self._cluster_id, self._pod_id, self._watcher)
        finally:
            for node_id in sorted(self._links):
                await self._close(node_id)

    async def _close(self, node_id: int) -> None:
        # The end of the old stream is reported before the beginning of a new one.
        await self._links[node_id].stream.close()
        del self._links[node_id]


class _LogstoreLink:
    """The stream to one incarnation of a logstore; another process at its address is rejected."""

    def __init__(self, broker: Broker, cluster_id: str, pod_id: str, watcher: LogstoreWatcher) -> None:
        self.broker = broker
        self._watcher = watcher
        self._welcomed = False
        self.stream = StreamLink(
            broker.data_address,
            METHOD,
            hello=pack_watch_request(WatchRequest(hello=Hello(cluster_id, pod_id))),
            pack_heartbeat=_pack_heartbeat,
            on_up=self._up,
            on_message=self._message,
            on_down=self._down,
        )
        self.stream.start()

    def _up(self, first: bytes) -> None:
        response = scan_watch_response(first)
        node_id = self.broker.node_id
        if response.welcome is None or response.welcome.node_id != node_id:
            self.stream.reset(f"{self.broker.data_address} is not logstore {node_id}")
            return
        self._welcomed = True
        self._watcher.logstore_up(node_id)
        self._tell(response)

    def _message(self, data: bytes) -> None:
        if self._welcomed:
            self._tell(scan_watch_response(data))

    def _tell(self, response: WatchResponse) -> None:
        if response.states:
            self._watcher.partition_states(self.broker.node_id, response.states)
        if response.group_states:
            self._watcher.group_states(self.broker.node_id, response.group_states)

    def _down(self, reason: str) -> None:
        _log.info("logstore lost", node_id=self.broker.node_id, address=self.broker.data_address, reason=reason)
        if self._welcomed:
            self._welcomed = False
            self._watcher.logstore_down(self.broker.node_id)


def _pack_heartbeat(count: int) -> bytes:
    return pack_watch_request(WatchRequest(heartbeat=count))
