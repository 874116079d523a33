"""The streams of one processor: three to every logstore of the image, and calls; one to every purgatory pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    ExchangeRequest,
    ExchangeResponse,
    Hello,
    ParkRequest,
    ParkResponse,
    ReadRequest,
    ReadResponse,
)
from barnabas.channel.packing import (
    pack_coordinate_request,
    pack_exchange_request,
    pack_park_request,
    pack_read_request,
    scan_coordinate_response,
    scan_exchange_response,
    scan_park_response,
    scan_read_response,
)
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import Broker, Purgatory
from barnabas.runtime.logs import get_logger
from barnabas.runtime.streams import StreamLink
from services.gateway.core.effects import LogstoreCall
from services.gateway.shell.logstore_calls import LogstoreCalls

EXCHANGE = "/barnabas.logstore.v1.DataChannel/Exchange"
READ = "/barnabas.logstore.v1.DataChannel/Read"
COORDINATE = "/barnabas.logstore.v1.Coordination/Coordinate"
PARK = "/barnabas.purgatory.v1.Purgatory/Park"

_log = get_logger("gateway.links")


class LinkOwner(Protocol):
    """Who is told what the streams bring. Between an up and its down all messages come from one stream."""

    def exchange_up(self, node_id: int) -> None: ...

    def exchange_response(self, node_id: int, response: ExchangeResponse) -> None: ...

    def exchange_down(self, node_id: int) -> None: ...

    def read_up(self, node_id: int) -> None: ...

    def read_response(self, node_id: int, response: ReadResponse) -> None: ...

    def read_down(self, node_id: int) -> None: ...

    def coordinate_up(self, node_id: int) -> None: ...

    def coordinate_response(self, node_id: int, response: CoordinateResponse) -> None: ...

    def coordinate_down(self, node_id: int) -> None: ...

    def logstore_answered(self, call_id: int, answer: AdministrationResponse | None) -> None: ...

    def purgatory_up(self, pod_id: str) -> None: ...

    def park_response(self, pod_id: str, response: ParkResponse) -> None: ...

    def purgatory_down(self, pod_id: str) -> None: ...


class Links:
    """Keeps the streams that the image asks for."""

    def __init__(self, peer: str, owner: LinkOwner) -> None:
        """`peer` names this processor in the logs of others: "gateway-0/2"."""
        self._peer = peer
        self._owner = owner
        self._cluster_id = ""
        self._brokers: dict[int, Broker] = {}
        self._pods: dict[str, Purgatory] = {}
        self._logstores: dict[int, _LogstoreStreams] = {}
        self._parks: dict[str, _ParkStream] = {}
        self._changed = asyncio.Event()

    def follow(self, image: ClusterImage) -> None:
        """From now on these logstores and pods; `run` closes the streams to all others."""
        self._cluster_id = image.cluster_id
        self._brokers = dict(image.brokers)
        self._pods = {pod.pod_id: pod for pod in image.purgatories}
        self._changed.set()

    def send_exchange(self, node_id: int, request: ExchangeRequest) -> None:
        streams = self._logstores.get(node_id)
        if streams is not None:
            streams.exchange.send(pack_exchange_request(request))

    def send_read(self, node_id: int, request: ReadRequest) -> None:
        streams = self._logstores.get(node_id)
        if streams is not None:
            streams.read.send(pack_read_request(request))

    def send_coordinate(self, node_id: int, request: CoordinateRequest) -> None:
        streams = self._logstores.get(node_id)
        if streams is not None:
            streams.coordinate.send(pack_coordinate_request(request))

    def send_call(self, call: LogstoreCall) -> None:
        streams = self._logstores.get(call.node_id)
        if streams is not None:
            streams.calls.send(call)

    def cancel_call(self, call_id: int) -> None:
        for streams in self._logstores.values():
            streams.calls.cancel(call_id)

    def send_park(self, pod_id: str, request: ParkRequest) -> None:
        park = self._parks.get(pod_id)
        if park is not None:
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
                        self._logstores[node_id] = _LogstoreStreams(broker, hello, self._owner)
                for pod_id, pod in self._pods.items():
                    if pod_id not in self._parks:
                        self._parks[pod_id] = _ParkStream(pod, hello, self._owner)
        finally:
            self._brokers, self._pods = {}, {}
            await self._close_unwanted()

    async def _close_unwanted(self) -> None:
        """The old stream's end is told before a new one's beginning."""
        for node_id, streams in list(self._logstores.items()):
            if self._brokers.get(node_id) != streams.broker:
                await streams.close()
                del self._logstores[node_id]
        for pod_id, park in list(self._parks.items()):
            if self._pods.get(pod_id) != park.pod:
                await park.stream.close()
                del self._parks[pod_id]


class _LogstoreStreams:
    """The streams, and the calls, to one incarnation of a logstore; another process at its address is not believed."""

    def __init__(self, broker: Broker, hello: Hello, owner: LinkOwner) -> None:
        self.broker = broker
        self._owner = owner
        self._exchange_is_up = False
        self._read_is_up = False
        self._coordinate_is_up = False
        self.exchange = StreamLink(
            broker.data_address,
            EXCHANGE,
            hello=pack_exchange_request(ExchangeRequest(hello=hello)),
            pack_heartbeat=lambda count: pack_exchange_request(ExchangeRequest(heartbeat=count)),
            on_up=self._exchange_up,
            on_message=self._exchange_message,
            on_down=self._exchange_down,
        )
        self.read = StreamLink(
            broker.data_address,
            READ,
            hello=pack_read_request(ReadRequest(hello=hello)),
            pack_heartbeat=lambda count: pack_read_request(ReadRequest(heartbeat=count)),
            on_up=self._read_up,
            on_message=self._read_message,
            on_down=self._read_down,
        )
        self.coordinate = StreamLink(
            broker.data_address,
            COORDINATE,
            hello=pack_coordinate_request(CoordinateRequest(hello=hello)),
            pack_heartbeat=lambda count: pack_coordinate_request(CoordinateRequest(heartbeat=count)),
            on_up=self._coordinate_up,
            on_message=self._coordinate_message,
            on_down=self._coordinate_down,
        )
        self.calls = LogstoreCalls(broker.node_id, broker.data_address, owner.logstore_answered)
        self.exchange.start()
        self.read.start()
        self.coordinate.start()

    async def close(self) -> None:
        await self.exchange.close()
        await self.read.close()
        await self.coordinate.close()
        await self.calls.close()

    def _is_expected(self, node_id: int | None, reset: Callable[[str], None]) -> bool:
        if node_id == self.broker.node_id:
            return True
        reset(f"{self.broker.data_address} is not logstore {self.broker.node_id}")
        return False

    def _exchange_up(self, first: bytes) -> None:
        response = scan_exchange_response(first)
        welcome = response.welcome
        if self._is_expected(None if welcome is None else welcome.node_id, self.exchange.reset):
            self._exchange_is_up = True
            self._owner.exchange_up(self.broker.node_id)
            self._owner.exchange_response(self.broker.node_id, response)

    def _exchange_message(self, data: bytes) -> None:
        if self._exchange_is_up:
            self._owner.exchange_response(self.broker.node_id, scan_exchange_response(data))

    def _exchange_down(self, reason: str) -> None:
        _log.info("logstore lost", node_id=self.broker.node_id, address=self.broker.data_address, reason=reason)
        if self._exchange_is_up:
            self._exchange_is_up = False
            self._owner.exchange_down(self.broker.node_id)

    def _read_up(self, first: bytes) -> None:
        response = scan_read_response(first)
        welcome = response.welcome
        if self._is_expected(None if welcome is None else welcome.node_id, self.read.reset):
            self._read_is_up = True
            self._owner.read_up(self.broker.node_id)
            self._owner.read_response(self.broker.node_id, response)

    def _read_message(self, data: bytes) -> None:
        if self._read_is_up:
            self._owner.read_response(self.broker.node_id, scan_read_response(data))

    def _read_down(self, reason: str) -> None:
        if self._read_is_up:
            self._read_is_up = False
            self._owner.read_down(self.broker.node_id)

    def _coordinate_up(self, first: bytes) -> None:
        response = scan_coordinate_response(first)
        welcome = response.welcome
        if self._is_expected(None if welcome is None else welcome.node_id, self.coordinate.reset):
            self._coordinate_is_up = True
            self._owner.coordinate_up(self.broker.node_id)
            self._owner.coordinate_response(self.broker.node_id, response)

    def _coordinate_message(self, data: bytes) -> None:
        if self._coordinate_is_up:
            self._owner.coordinate_response(self.broker.node_id, scan_coordinate_response(data))

    def _coordinate_down(self, reason: str) -> None:
        if self._coordinate_is_up:
            self._coordinate_is_up = False
            self._owner.coordinate_down(self.broker.node_id)


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
        if self._is_up:
            self._owner.park_response(self.pod.pod_id, scan_park_response(data))

    def _down(self, reason: str) -> None:
        _log.info("purgatory lost", pod_id=self.pod.pod_id, address=self.pod.address, reason=reason)
        if self._is_up:
            self._is_up = False
            self._owner.purgatory_down(self.pod.pod_id)
