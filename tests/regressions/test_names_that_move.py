"""A pod that is replaced comes back at another address under its name, and gRPC looks a name up again after half a
minute only: leases of six seconds were lost when the etcd of a small cluster was restarted on Kubernetes, and all
partitions with them for a while. Channels look again in half a second.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from barnabas.runtime.etcd.connection import Connection
from barnabas.runtime.rpc import add_health, create_channel, create_server

BEFORE, AFTER = "127.0.0.1", "127.0.0.2"
FOUND_AGAIN_S_MAX = 20.0
"""Below gRPC's own half a minute by far enough."""


class NameServer(asyncio.DatagramProtocol):
    """Answers each question for an IPv4 address by the one that it has now."""

    address = BEFORE

    def __init__(self) -> None:
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name_end = data.index(b"\0", 12) + 1
        question = data[12 : name_end + 4]
        is_ipv4 = question[-4:-2] == b"\0\1"
        head = data[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_ipv4 else b"\0\0") + bytes(4)
        answer = b"\xc0\x0c\0\1\0\1" + bytes(4) + b"\0\4" + socket.inet_aton(self.address) if is_ipv4 else b""
        assert self.transport is not None
        self.transport.sendto(head + question + answer, addr)


async def serve(host: str, port: int = 0) -> tuple[grpc.aio.Server, int]:
    server, bound = create_server(f"{host}:{port}")
    await add_health(server, serving=True)
    await server.start()
    return server, bound


def etcd_channel(address: str) -> grpc.aio.Channel:
    return Connection(address, None, None).channel


def service_channel(address: str) -> grpc.aio.Channel:
    return create_channel(address, None)


async def is_answered(health: health_pb2_grpc.HealthStub) -> bool:
    """Wait for a connection, and ask. A call that began on the connection that just ended fails, without an answer."""
    try:
        await health.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


@pytest.mark.parametrize("make_channel", [service_channel, etcd_channel])
async def test_a_name_that_moves_to_another_address_is_found_there(
    make_channel: Callable[[str], grpc.aio.Channel],
) -> None:
    names = NameServer()
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: names, local_addr=(BEFORE, 0))
    server, port = await serve(BEFORE)
    name_server_port = transport.get_extra_info("sockname")[1]
    channel = make_channel(f"dns://{BEFORE}:{name_server_port}/etcd.example:{port}")
    try:
        health = health_pb2_grpc.HealthStub(channel)
        await health.Check(health_pb2.HealthCheckRequest(), timeout=FOUND_AGAIN_S_MAX, wait_for_ready=True)
        await server.stop(0)
        server, _ = await serve(AFTER, port)
        names.address = AFTER
        async with asyncio.timeout(FOUND_AGAIN_S_MAX):
            while not await is_answered(health):
                pass
    finally:
        await channel.close(None)
        await server.stop(0)
        transport.close()
