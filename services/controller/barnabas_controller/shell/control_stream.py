"""ControlStream: the connection to one logstore's control listener, kept for as long as its registration stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.cluster.messages import ControlResponse
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.protobuf import from_proto
from barnabas.runtime.registration import refuses_connections
from barnabas.runtime.streams import Packing, StreamLink
from barnabas_controller.shell.containment import PROBE
from barnabas_protos.logstore.v1 import control_pb2 as pb

_METHOD = "/barnabas.logstore.v1.ControlChannel/Control"
_PROBE_EVERY_S = 0.1
_PROBES = 30

_log = get_logger("control")


class ControlStream:
    """Reports on the event loop: up, every answer, down; and gone, if no process listens at its addresses any more."""

    def __init__(
        self,
        control_address: str,
        data_address: str,
        on_up: Callable[[], None],
        on_response: Callable[[ControlResponse], None],
        on_down: Callable[[], None],
        on_gone: Callable[[], None],
    ) -> None:
        self._addresses = [control_address, data_address]
        self._on_up = on_up
        self._on_response = on_response
        self._on_down = on_down
        self._on_gone = on_gone
        self._probing: asyncio.Task[None] | None = None
        self._link = StreamLink(
            control_address,
            _METHOD,
            hello=_heartbeat(1),
            pack_heartbeat=_heartbeat,
            on_up=self._up,
            on_message=self._message,
            on_down=self._down,
        )

    def start(self) -> None:
        self._link.start()

    def send(self, data: bytes) -> None:
        """A ControlRequest, packed."""
        self._link.send(data)

    def send_when_packed(self, packing: Packing) -> None:
        """A large ControlRequest."""
        self._link.send_when_packed(packing)

    async def close(self) -> None:
        self._stop_probing()
        await self._link.close()

    def _up(self, first: bytes) -> None:
        self._stop_probing()
        self._on_up()
        self._message(first)

    def _message(self, data: bytes) -> None:
        response = from_proto(ControlResponse, pb.ControlResponse.FromString(data))
        if response.sequence:
            self._on_response(response)

    def _down(self, reason: str) -> None:
        _log.warning("control stream lost", address=self._addresses[0], reason=reason)
        self._on_down()
        self._probing = BackgroundTasks(PROBE).keep(self._probe)

    async def _probe(self) -> None:
        """A crashed process refuses connections at once; one that does not refuse is left to its lease."""
        for _ in range(_PROBES):
            if all([await refuses_connections(address) for address in self._addresses]):
                self._on_gone()
                return
            await asyncio.sleep(_PROBE_EVERY_S)

    def _stop_probing(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None


def _heartbeat(count: int) -> bytes:
    return pb.ControlRequest(heartbeat=count).SerializeToString()
