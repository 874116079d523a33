"""The streams of one processor: three to every logstore of the image, plus calls, and one to every purgatory pod."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from barnabas.channel.generated.packing import pack_park_request, scan_park_response
from barnabas.channel.messages import (
    CoordinateRequest,
    ExchangeRequest,
    Hello,
    ParkRequest,
    ParkResponse,
    ReadRequest,
)
from barnabas.channel.packing_in_steps import is_long_park_request, pack_park_request_in_steps
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import Broker, Purgatory
from barnabas.runtime.large_messages import over_turns
from barnabas.runtime.logs import get_logger
from barnabas.runtime.streams import StreamLink
from barnabas_gateway.core.model.outputs import LogstoreCall
from barnabas_gateway.shell.logstore_streams import LogstoreOwner, LogstoreStreams

PARK = "/barnabas.purgatory.v1.Purgatory/Park"

_log = get_logger("gateway.links")


class LinkOwner(LogstoreOwner, Protocol):
    """Receives what the streams deliver. Between an up and its down all messages come from one stream."""

    def purgatory_up(self, pod_id: str) -> None: ...

    def park_response(self, pod_id: str, response: ParkResponse) -> None: ...

    def purgatory_down(self, pod_id: str) -> None: ...


class Links:
    """Keeps open the streams that the image requires."""

    def __init__(self, peer: str, owner: LinkOwner) -> None:
        """`peer` names this processor in the logs of others: "gateway-0/2"."""
        self._peer = peer
        self._owner = owner
        self._cluster_id = ""
        self._brokers: dict[int, Broker] = {}
        self._pods: dict[str, Purgatory] = {}
        self._logstores: dict[int, LogstoreStreams] = {}
        self._parks: dict[str, _ParkStream] = {}
        self._changed = asyncio.Event()

    def follow(self, image: ClusterImage) -> None:
        """Keep streams to these logstores and pods from now on; `run` closes the streams to all others."""
        self._cluster_id = image.cluster_id
        self._brokers = dict(image.brokers)
        self._pods = {pod.pod_id: pod for pod in image.purgatories}
        self._changed.set()

    def send_exchange(self, node_id: int, request: ExchangeRequest) -> None:
        streams = self._logstores.get(node_id)
        if streams is not None:
            streams.exchange.send(request)

    def send_read(self, node_id: int, request: ReadRequest) -> None:
        streams = self._logstores.get(node_id)
        if streams is not None:
            streams.read.send(request)

    def send_coordinate(self, node_id: int, request: CoordinateRequest) -> None:
        streams = self._logstores.get(node_id)
        if streams is not None:
            streams.coordinate.send(request)

    def send_call(self, call: LogstoreCall) -> None:
        streams = self._logstores.get(call.node_id)
        if streams is not None:
            streams.calls.send(call)

    def cancel_call(self, call_id: int) -> None:
        for streams in self._logstores.values():
            streams.calls.cancel(call_id)

    def send_park(self, pod_id: str, request: ParkRequest) -> None:
        park = self._parks.get(pod_id)
        if park is None:
            return
        if is_long_park_request(request):
            park.stream.send_when_packed(partial(over_turns, pack_park_request_in_steps(request)))
        else:
            park.stream.send(pack_park_request(request))

    async def run(self) -> None:
        """Open and close streams as the image changes, until cancelled; then close all."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._close_unwanted()
                hello = Hello(self._cluster_id, self._peer)
                for node_id, broker in self._brokers.items():
                    if node_id not in self._logstores:
                        self._logstores[node_id] = LogstoreStreams(broker, hello, self._owner)
                for pod_id, pod in self._pods.items():
                    if pod_id not in self._parks:
                        self._parks[pod_id] = _ParkStream(pod, hello, self._owner)
        finally:
            self._brokers, self._pods = {}, {}
            await self._close_unwanted()

    async def _close_unwanted(self) -> None:
        """The end of the old stream is reported before the beginning of a new one."""
        for node_id, streams in list(self._logstores.items()):
            if self._brokers.get(node_id) != streams.broker:
                await streams.close()
                del self._logstores[node_id]
        for pod_id, park in list(self._parks.items()):
            if self._pods.get(pod_id) != park.pod:
                await park.stream.close()
                del self._parks[pod_id]


class _ParkStream:
    """The stream to one purgatory pod."""

    def __init__(self, pod: Purgatory, hello: Hello, owner: LinkOwner) -> None:
        self.pod = pod
        self._owner = owner
        self._is_up = False
        self.stream = StreamLink(
            pod.address,
            PARK,
            hello=pack_park_request(ParkRequest(hello=hello)),
            pack_heartbeat=lambda count: pack_park_request(ParkRequest(heartbeat=count)),
            on_up=self._up,
            on_message=self._message,
            on_down=self._down,
        )
        self.stream.start()

    def _up(self, first: bytes) -> None:
        if scan_park_response(first).pod_id != self.pod.pod_id:
            self.stream.reset(f"{self.pod.address} is not purgatory pod {self.pod.pod_id}")
            return
        self._is_up = True
        self._owner.purgatory_up(self.pod.pod_id)

    def _message(self, data: bytes) -> None:
        response = scan_park_response(data)
        if self._is_up and not response.heartbeat:
            self._owner.park_response(self.pod.pod_id, response)

    def _down(self, reason: str) -> None:
        _log.info("purgatory lost", pod_id=self.pod.pod_id, address=self.pod.address, reason=reason)
        if self._is_up:
            self._is_up = False
            self._owner.purgatory_down(self.pod.pod_id)
