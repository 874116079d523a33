"""`python -m barnabas_logstore.control ADDRESS`: the control listener, spawned by the logstore as its child.

A separate process, since the interpreter lock is a queue too: with the data loop saturated, a command took 77–157 ms
(p99) through a listener on threads of the data process, and 2.4–3.9 ms through this one. It uses gRPC and protobuf with
the controller, and passes commands to the core over a socket pair in order; the other end is in
`barnabas_logstore.shell.control_process`. The pod's metrics are served here too. It dies with its parent.

It is spawned before the logs are loaded and listens on request: what it needs to start is done by then.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Awaitable
from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.cluster.messages import ControlRequest, ControlResponse
from barnabas.runtime.configuration.service_config import take_identity_of
from barnabas.runtime.large_messages import LARGE_BYTES, over_turns
from barnabas.runtime.logs import LoggerLevels, configure_logging, get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.loop.event_loop import new_event_loop
from barnabas.runtime.metrics.endpoint import MetricsEndpoint
from barnabas.runtime.metrics.pod_metrics import PodMetrics
from barnabas.runtime.metrics.process_metrics import measures_of_process
from barnabas.runtime.processes.contained_counts import ContainedCounts
from barnabas.runtime.processes.messages import MessageSocket
from barnabas.runtime.processes.spawning import parent_socket
from barnabas.runtime.protobuf import from_proto, from_proto_in_steps, to_proto
from barnabas.runtime.rpc import Health, add_health, create_server, stop_server
from barnabas.runtime.streams import ServerStream, register_stream
from barnabas_logstore.shell.containment import CONTROL_HEALTH
from barnabas_logstore.shell.control_messages import (
    ANSWER,
    COMMAND,
    LISTEN,
    LISTENING,
    LOGGER_LEVELS,
    METRICS,
    SCRAPED,
    SERVING,
    SESSION,
    STOP_GRACE_MS,
    Scraped,
)
from barnabas_protos.logstore.v1 import control_pb2

CONTROL_SERVICE: Final[str] = control_pb2.DESCRIPTOR.services_by_name["ControlChannel"].full_name
DATA_PROCESS: Final = 0

_log = get_logger("logstore.control")


class ControlListener:
    """Sessions are streams of controllers: several while one takes over from another; the core distinguishes them by
    epoch.
    """

    def __init__(self, levels: LoggerLevels) -> None:
        self._levels = levels
        self._sessions: dict[int, ServerStream] = {}
        self._sessions_opened = 0
        self._parent: MessageSocket | None = None
        self._may_listen = asyncio.Event()
        self._health: Health | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(ControlResponse)
        self._tasks = BackgroundTasks(CONTROL_HEALTH)
        self._metrics: PodMetrics | None = None

    async def run(self, address: str) -> None:
        """Serve until SIGTERM or until the parent is gone. Raises OSError (the listener)."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop() -> None:
            stopping.set()
            self._may_listen.set()

        loop.add_signal_handler(signal.SIGTERM, stop)
        # Ctrl-C reaches the whole process group; the parent stops this process when its own work is done.
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        self._parent = parent_socket(self._on_parent_message, stop)
        ContainedCounts(self._parent)
        await self._may_listen.wait()
        if stopping.is_set():
            return
        server, port = create_server(address)
        register_stream(server, CONTROL_SERVICE, "Control", self.open_session)
        self._health = await add_health(server, CONTROL_SERVICE, serving=False)
        await server.start()
        self._parent.send(LISTENING, str(port).encode())
        await stopping.wait()
        await stop_server(server, STOP_GRACE_MS)

    def open_session(self, stream: ServerStream) -> ControlSession:
        self._sessions_opened += 1
        self._sessions[self._sessions_opened] = stream
        return ControlSession(self, self._sessions_opened, stream)

    def close_session(self, session_id: int) -> None:
        del self._sessions[session_id]

    def hand_over(self, session_id: int, request: ControlRequest) -> None:
        """Pass a command to the core, as msgpack, which is decoded ten times faster than protobuf."""
        assert self._parent is not None
        self._parent.send(COMMAND, SESSION.pack(session_id) + self._encode(request))

    def _on_parent_message(self, kind: bytes, payload: bytes, fds: list[int]) -> None:
        if kind == METRICS:
            assert self._metrics is not None, "it has asked for them"
            self._metrics.heard(DATA_PROCESS, payload)
            return
        if kind == SCRAPED:
            if fds:  # None if this process is out of descriptors
                scraped = msgspec.json.decode(payload, type=Scraped)
                self._serve_metrics(scraped, socket.socket(fileno=fds[0]))
            return
        if kind == LOGGER_LEVELS:
            self._levels.replace(msgspec.json.decode(payload, type=dict[str, str]))
            return
        if kind == LISTEN:
            self._may_listen.set()
            return
        if kind == SERVING:
            self._set_serving(payload == b"1")
            return
        assert kind == ANSWER, kind
        (session_id,) = SESSION.unpack_from(payload)
        stream = self._sessions.get(session_id)
        if stream is not None:
            response = self._decoder.decode(memoryview(payload)[SESSION.size :])
            stream.send(to_proto(response, control_pb2.ControlResponse).SerializeToString())

    def _serve_metrics(self, scraped: Scraped, bound: socket.socket) -> None:
        parent = self._parent
        assert parent is not None
        self._metrics = PodMetrics("logstore", scraped.node_id, measures_of_process("control"))
        self._metrics.add_process(DATA_PROCESS, lambda: parent.send(METRICS))
        try:
            MetricsEndpoint(bound, self._metrics.collect, scraped.security).start()
        except OSError as error:
            bound.close()
            _log.error("no metrics are served: their files can't be used", reason=str(error))

    def _set_serving(self, serving: bool) -> None:
        assert self._health is not None
        self._tasks.start(self._health.set_serving(serving))


class ControlSession:
    """One stream of a controller."""

    def __init__(self, listener: ControlListener, session_id: int, stream: ServerStream) -> None:
        self._listener = listener
        self._session_id = session_id
        self._stream = stream
        self._greeted = False

    def on_message(self, data: bytes) -> Awaitable[None] | None:
        try:
            message = control_pb2.ControlRequest.FromString(data)
        except DecodeError as error:
            raise MalformedMessage(str(error)) from error
        if not self._greeted:
            # The answer to the first message shows the controller that the stream is open.
            self._greeted = True
            self._stream.send(self.pack_heartbeat(1))
        if len(data) >= LARGE_BYTES:
            return self._take_large(message)
        if not message.heartbeat:
            self._listener.hand_over(self._session_id, from_proto(ControlRequest, message))
        return None

    async def _take_large(self, message: control_pb2.ControlRequest) -> None:
        request = await over_turns(from_proto_in_steps(ControlRequest, message))
        self._listener.hand_over(self._session_id, request)

    def on_closed(self, reason: str) -> None:
        _log.info("controller's stream ended", reason=reason)
        self._listener.close_session(self._session_id)

    def pack_heartbeat(self, count: int) -> bytes:
        return control_pb2.ControlResponse(heartbeat=count).SerializeToString()


def main() -> None:
    address, level, log_format, *own = sys.argv[1:]
    levels = configure_logging("logstore-control", level, log_format)  # type: ignore[arg-type]  # the parent's config
    try:
        take_identity_of(own)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(ControlListener(levels).run(address))
    except OSError as error:
        sys.exit(f"barnabas-logstore: {error}")


if __name__ == "__main__":
    main()
