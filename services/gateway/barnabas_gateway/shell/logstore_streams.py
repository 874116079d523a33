"""The streams, and the calls, of one processor to one logstore."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from barnabas.channel.generated.packing import (
    pack_coordinate_request,
    pack_exchange_request,
    pack_read_request,
    scan_coordinate_response,
    scan_exchange_response,
    scan_read_response,
)
from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    ExchangeRequest,
    ExchangeResponse,
    Hello,
    ReadRequest,
    ReadResponse,
    Welcome,
)
from barnabas.channel.packing_in_steps import is_long_read_request, pack_read_request_in_steps
from barnabas.channel.range_files import ReceivedFiles
from barnabas.channel.shared_records import SharedOutbox
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.messages import Broker
from barnabas.runtime.large_messages import over_turns
from barnabas.runtime.logs import get_logger
from barnabas.runtime.streams import StreamLink
from barnabas.wire.primitives import Steps
from barnabas_gateway.shell.logstore_calls import LogstoreCalls

EXCHANGE = "/barnabas.logstore.v1.DataChannel/Exchange"
READ = "/barnabas.logstore.v1.DataChannel/Read"
COORDINATE = "/barnabas.logstore.v1.Coordination/Coordinate"

_log = get_logger("gateway.links")


class LogstoreOwner(Protocol):
    """Receives what logstores send. Between an up and its down all messages come from one stream."""

    def exchange_up(self, node_id: int) -> None: ...

    def exchange_response(self, node_id: int, response: ExchangeResponse) -> None: ...

    def exchange_down(self, node_id: int) -> None: ...

    def read_up(self, node_id: int, *, accepts_ranges: bool) -> None: ...

    def read_response(self, node_id: int, response: ReadResponse) -> None: ...

    def read_down(self, node_id: int) -> None: ...

    def coordinate_up(self, node_id: int) -> None: ...

    def coordinate_response(self, node_id: int, response: CoordinateResponse) -> None: ...

    def coordinate_down(self, node_id: int) -> None: ...

    def logstore_answered(self, call_id: int, answer: AdministrationResponse | None) -> None: ...


class _LogstoreResponse(Protocol):
    heartbeat: int
    welcome: Welcome | None


Request = TypeVar("Request")
Response = TypeVar("Response", bound=_LogstoreResponse)


@dataclass(slots=True, frozen=True)
class _Method(Generic[Request, Response]):
    """A streaming method of a logstore."""

    path: str
    make: Callable[[Hello | None, int], Request]
    """Gives a request with a hello or a heartbeat, and nothing else."""
    pack: Callable[[Request], bytes]
    scan: Callable[[bytes], Response]
    pack_in_steps: Callable[[Request], Steps[bytes] | None] = lambda _: None
    """Returns None for a request that is packed in one turn."""


def _pack_long_read_request(request: ReadRequest) -> Steps[bytes] | None:
    return pack_read_request_in_steps(request) if is_long_read_request(request) else None


_EXCHANGE = _Method(EXCHANGE, ExchangeRequest, pack_exchange_request, scan_exchange_response)
_READ = _Method(READ, ReadRequest, pack_read_request, scan_read_response, _pack_long_read_request)
_COORDINATE = _Method(COORDINATE, CoordinateRequest, pack_coordinate_request, scan_coordinate_response)


class _LogstoreStream(Generic[Request, Response]):
    """One stream to one incarnation of a logstore; another process at its address is rejected."""

    def __init__(
        self,
        broker: Broker,
        method: _Method[Request, Response],
        hello: Hello,
        on_up: Callable[[int], None],
        on_response: Callable[[int, Response], None],
        on_down: Callable[[int], None],
        files: ReceivedFiles | None = None,
    ) -> None:
        """`files` gets the descriptors that come along with messages."""
        make, pack = method.make, method.pack
        self._broker = broker
        self._path = method.path
        self._pack: Callable[[Request], bytes] = pack
        self._pack_in_steps: Callable[[Request], Steps[bytes] | None] = method.pack_in_steps
        self._scan: Callable[[bytes], Response] = method.scan
        self._on_up = on_up
        self._on_response = on_response
        self._on_down = on_down
        self._is_up = False
        self._link = StreamLink(
            broker.data_address,
            method.path,
            hello=pack(make(hello, 0)),
            pack_heartbeat=lambda count: pack(make(None, count)),
            on_up=self._up,
            on_message=self._message,
            on_down=self._down,
        )
        if files is not None:
            self._link.on_descriptors = files.arrive
        self._link.start()

    @property
    def is_on_lane(self) -> bool:
        return self._link.is_on_lane

    @property
    def outbox(self) -> SharedOutbox | None:
        return self._link.outbox

    def send(self, request: Request) -> None:
        steps = self._pack_in_steps(request)
        if steps is None:
            self._link.send(self._pack(request))
        else:
            self._link.send_when_packed(partial(over_turns, steps))

    async def close(self) -> None:
        await self._link.close()

    def _up(self, first: bytes) -> None:
        node_id = self._broker.node_id
        response = self._scan(first)
        if response.welcome is None or response.welcome.node_id != node_id:
            self._link.reset(f"{self._broker.data_address} is not logstore {node_id}")
            return
        self._is_up = True
        self._on_up(node_id)
        self._on_response(node_id, response)

    def _message(self, data: bytes) -> None:
        response = self._scan(data)
        if self._is_up and not response.heartbeat:
            self._on_response(self._broker.node_id, response)

    def _down(self, reason: str) -> None:
        broker = self._broker
        _log.info(
            "logstore lost", node_id=broker.node_id, stream=self._path, address=broker.data_address, reason=reason
        )
        if self._is_up:
            self._is_up = False
            self._on_down(broker.node_id)


class LogstoreStreams:
    """All streams and calls to one incarnation of a logstore."""

    def __init__(self, broker: Broker, hello: Hello, owner: LogstoreOwner) -> None:
        self.broker = broker
        exchange = replace(_EXCHANGE, pack=self._pack_exchange_request)
        self.exchange = _LogstoreStream(
            broker, exchange, hello, owner.exchange_up, owner.exchange_response, owner.exchange_down
        )
        self._owner = owner
        self._files = ReceivedFiles()
        read = replace(_READ, scan=self._scan_read_response)
        self.read = _LogstoreStream(
            broker, read, hello, self._read_up, owner.read_response, self._read_down, self._files
        )
        self.coordinate = _LogstoreStream(
            broker, _COORDINATE, hello, owner.coordinate_up, owner.coordinate_response, owner.coordinate_down
        )
        self.calls = LogstoreCalls(broker.node_id, broker.data_address, owner.logstore_answered)

    def _pack_exchange_request(self, request: ExchangeRequest) -> bytes:
        if request.appends:
            outbox = self.exchange.outbox
            if outbox is not None:
                outbox.share_appends(request)
        return pack_exchange_request(request)

    def _scan_read_response(self, data: bytes) -> ReadResponse:
        response = scan_read_response(data)
        self._files.resolve(response)
        return response

    def _read_up(self, node_id: int) -> None:
        self._owner.read_up(node_id, accepts_ranges=self.read.is_on_lane)

    def _read_down(self, node_id: int) -> None:
        self._files.clear()
        self._owner.read_down(node_id)

    async def close(self) -> None:
        await self.exchange.close()
        await self.read.close()
        await self.coordinate.close()
        await self.calls.close()
