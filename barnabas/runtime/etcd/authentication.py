"""Authentication at an etcd with users: a token, got by a password, that comes along with every request.

A token ends with its time to live, with etcd's restart, and when etcd's users change. A request that is refused for it
has done nothing, so it is sent once more with a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import grpc
import grpc.aio

from barnabas.runtime.etcd.options import OPTIONS
from barnabas_protos.etcd.v1 import rpc_pb2 as pb
from barnabas_protos.etcd.v1 import rpc_pb2_grpc as rpc

if TYPE_CHECKING:
    from barnabas_protos.etcd.v1.rpc_pb2_grpc import AuthAsyncStub

Metadata: TypeAlias = tuple[tuple[str, str], ...]
_KEY: Final = "token"
_TIMEOUT_S: Final = 3.0
_OLD_REVISION: Final = "revision of auth store is old"


@dataclass(slots=True, frozen=True)
class EtcdUser:
    name: str
    password: str = field(repr=False)


class TokenOfUser:
    """The present token of one user at one member; a channel of its own asks for it."""

    __slots__ = ("_asking", "_channel", "_stub", "_token", "_user")

    def __init__(self, user: EtcdUser, endpoint: str, credentials: grpc.ChannelCredentials | None) -> None:
        self._user = user
        self._channel: grpc.aio.Channel = (
            grpc.aio.insecure_channel(endpoint, options=OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(endpoint, credentials, options=OPTIONS)
        )
        self._stub: AuthAsyncStub = rpc.AuthStub(self._channel)
        self._token = ""
        self._asking = asyncio.Lock()

    async def metadata(self) -> Metadata:
        """Return the token, asked for if there is none. Raises AioRpcError."""
        async with self._asking:
            if not self._token:
                request = pb.AuthenticateRequest(name=self._user.name, password=self._user.password)
                self._token = (await self._stub.Authenticate(request, timeout=_TIMEOUT_S)).token
        return ((_KEY, self._token),)

    def forget(self, refused: str = "") -> None:
        """Have the next request ask for another token, unless that has happened since `refused` was in use."""
        if not refused or refused == self._token:
            self._token = ""

    async def close(self) -> None:
        await self._channel.close(None)


class TokenInterceptor(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc, type-arg, unused-ignore]
    """Adds the token to calls."""

    def __init__(self, token: TokenOfUser) -> None:
        self._token = token

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Any],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        metadata = await self._token.metadata()
        call = await continuation(_with(client_call_details, metadata), request)
        if not is_refused_token(await call.code(), await call.details()):
            return call
        self._token.forget(metadata[0][1])
        return await continuation(_with(client_call_details, await self._token.metadata()), request)


def is_refused_token(code: grpc.StatusCode, details: str | None) -> bool:
    """Whether etcd refuses the token rather than the request."""
    return code is grpc.StatusCode.UNAUTHENTICATED or is_overtaken(code, details)


def is_overtaken(code: grpc.StatusCode, details: str | None) -> bool:
    """Whether users have changed while etcd had the request, whose sender it knows by its certificate: it has done
    nothing, and can be sent once more.
    """
    return code is grpc.StatusCode.INVALID_ARGUMENT and _OLD_REVISION in (details or "")


def _with(details: grpc.aio.ClientCallDetails, added: Metadata) -> grpc.aio.ClientCallDetails:
    metadata = grpc.aio.Metadata(*(details.metadata or ()), *added)
    return grpc.aio.ClientCallDetails(
        details.method, details.timeout, metadata, details.credentials, details.wait_for_ready
    )
