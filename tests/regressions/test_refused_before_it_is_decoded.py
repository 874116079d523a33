"""A guard decodes the message of a call after it has let the caller in.

A message of 16 MB that was two bytes per element took 536 MB and 3 s of a controller's loop, sent by a certificate
without a role.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import DecodeError

from barnabas.runtime.inter_service.call_guard import CallGuard, CallRefused
from barnabas.runtime.rpc import bind_server, stop_server

SERVICE = "barnabas.test.v1.Guarded"
UNARY, STREAMED = f"/{SERVICE}/Unary", f"/{SERVICE}/Streamed"
MALFORMED = b"malformed"


class Guard:
    """Lets all in, or none; counts what is decoded after that."""

    def __init__(self) -> None:
        self.is_open = False
        self.decoded: list[bytes] = []

    async def __call__(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if not self.is_open:
            raise CallRefused(grpc.StatusCode.PERMISSION_DENIED, "shut")

    def decode(self, data: bytes) -> bytes:
        self.decoded.append(data)
        if data == MALFORMED:
            raise DecodeError("truncated")
        return b"decoded " + data


async def unary(request: bytes, _context: object) -> bytes:
    return request


async def streamed(request: bytes, _context: object) -> AsyncIterator[bytes]:
    yield request


@asynccontextmanager
async def guarded_by(door: Guard) -> AsyncIterator[grpc.aio.Channel]:
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary, door.decode),
        "Streamed": grpc.unary_stream_rpc_method_handler(streamed, door.decode),
    }
    server, port = bind_server(grpc.aio.server(interceptors=[CallGuard(door)]), ["127.0.0.1:0"])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.enable_http_proxy", 0)]) as channel:
            yield channel
    finally:
        await stop_server(server, 0)


async def answered(channel: grpc.aio.Channel, method: str, message: bytes) -> bytes:
    """Return the one answer. Raises AioRpcError."""
    if method == UNARY:
        answer: bytes = await channel.unary_unary(method)(message, timeout=10)
        return answer
    return b"".join([each async for each in channel.unary_stream(method)(message, timeout=10)])


@pytest.mark.parametrize("method", [UNARY, STREAMED])
async def test_a_message_of_a_refused_caller_is_not_decoded(method: str) -> None:
    door = Guard()
    async with guarded_by(door) as channel:
        for message in (b"one", MALFORMED):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await answered(channel, method, message)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert door.decoded == []
        door.is_open = True
        assert await answered(channel, method, b"two") == b"decoded two"
        assert door.decoded == [b"two"]


@pytest.mark.parametrize("method", [UNARY, STREAMED])
async def test_a_malformed_message_of_a_caller_that_is_let_in_ends_its_call_alone(method: str) -> None:
    door = Guard()
    door.is_open = True
    async with guarded_by(door) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await answered(channel, method, MALFORMED)
        assert refused.value.code() is grpc.StatusCode.INTERNAL
        assert await answered(channel, method, b"two") == b"decoded two"
