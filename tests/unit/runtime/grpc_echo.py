"""`python -m tests.unit.runtime.grpc_echo`: a server whose stream returns each message, and prints its port."""

from __future__ import annotations

import asyncio

from barnabas.runtime.loop.event_loop import EventLoop
from barnabas.runtime.rpc import create_server
from barnabas.runtime.streams import ServerStream, StreamHandler, register_stream

SERVICE = "test.Echo"
METHOD = "Echo"


class _Echo:
    def __init__(self, stream: ServerStream) -> None:
        self._stream = stream

    def on_message(self, data: bytes) -> None:
        self._stream.send(data)

    def on_closed(self, reason: str) -> None:
        pass

    def pack_heartbeat(self, count: int) -> bytes:
        return b""


def _open(stream: ServerStream) -> StreamHandler:
    return _Echo(stream)


async def serve() -> None:
    server, port = create_server("127.0.0.1:0")
    register_stream(server, SERVICE, METHOD, _open)
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(serve())
