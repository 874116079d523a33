"""Channels to the members of an etcd cluster: one in use, the next one tried if it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from barnabas.runtime.etcd.authentication import EtcdUser, Metadata, TokenInterceptor, TokenOfUser
from barnabas.runtime.etcd.options import BACKOFF_MS_MAX, BACKOFF_MS_MIN, OPTIONS
from barnabas.runtime.pem_files import Pem, ReloadedPem, TlsFiles
from barnabas_protos.etcd.v1 import rpc_pb2_grpc as rpc

if TYPE_CHECKING:
    # The generated asynchronous classes exist only in the type stubs.
    from barnabas_protos.etcd.v1.rpc_pb2_grpc import (
        AuthAsyncStub,
        KVAsyncStub,
        LeaseAsyncStub,
        MaintenanceAsyncStub,
        WatchAsyncStub,
    )


class EtcdUnavailable(Exception):  # noqa: N818  (an outcome, not a failure)
    """No member answered in time; this call changed nothing, because it only read."""


def channel_credentials(pem: Pem) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(pem.authority, pem.key, pem.certificate)


class Connection:
    """The stubs of one member."""

    __slots__ = ("auth", "channel", "endpoint", "generation", "kv", "lease", "maintenance", "token", "watch")

    def __init__(self, endpoint: str, tls: ReloadedPem | None, user: EtcdUser | None) -> None:
        self.endpoint = endpoint
        credentials = channel_credentials(tls.read()) if tls is not None else None
        self.generation = tls.generation if tls is not None else 0
        self.token = TokenOfUser(user, endpoint, credentials) if user is not None else None
        interceptors: Any = [TokenInterceptor(self.token)] if self.token is not None else []
        self.channel: grpc.aio.Channel = (
            grpc.aio.insecure_channel(endpoint, options=OPTIONS, interceptors=interceptors)
            if credentials is None
            else grpc.aio.secure_channel(endpoint, credentials, options=OPTIONS, interceptors=interceptors)
        )
        self.auth: AuthAsyncStub = rpc.AuthStub(self.channel)
        self.kv: KVAsyncStub = rpc.KVStub(self.channel)
        self.watch: WatchAsyncStub = rpc.WatchStub(self.channel)
        self.lease: LeaseAsyncStub = rpc.LeaseStub(self.channel)
        self.maintenance: MaintenanceAsyncStub = rpc.MaintenanceStub(self.channel)

    async def stream_metadata(self) -> Metadata:
        """Return what a stream needs to be authenticated (calls get it by the interceptor); empty without a user."""
        return await self.token.metadata() if self.token is not None else ()

    def forget_token(self) -> None:
        """A stream was refused; the reason may be its token."""
        if self.token is not None:
            self.token.forget()

    async def close(self) -> None:
        await self.channel.close(None)
        if self.token is not None:
            await self.token.close()


class Endpoints:
    """The members of the cluster, one of which is in use until it is reported as failed."""

    def __init__(self, endpoints: Sequence[str], tls: TlsFiles | None, user: EtcdUser | None = None) -> None:
        """`endpoints` are "host:port", with or without a scheme. Raises PemError."""
        assert endpoints, "an etcd client needs an endpoint"
        self._tls = ReloadedPem(tls) if tls is not None else None
        self._user = user
        self._connections = [Connection(_host_and_port(endpoint), self._tls, self._user) for endpoint in endpoints]
        self._replaced: list[Connection] = []
        self._current = 0

    def current(self) -> Connection:
        return self._connections[self._current]

    def leave(self, failed: Connection) -> None:
        """Switch to the next member, unless another caller has already switched.

        A channel connects again with the certificate it was made with: if there is another one by now, its place is
        taken by a new channel. The old one, without calls, goes idle.
        """
        if failed is not self._connections[self._current]:
            return
        if self._tls is not None:
            self._tls.read()
            if failed.generation != self._tls.generation:
                self._connections[self._current] = Connection(failed.endpoint, self._tls, self._user)
                self._replaced.append(failed)
        self._current = (self._current + 1) % len(self._connections)

    async def close(self) -> None:
        for connection in (*self._connections, *self._replaced):
            await connection.close()


class Backoff:
    """50 ms, doubling up to 1 s, until an attempt succeeds."""

    __slots__ = ("_wait_ms",)

    def __init__(self) -> None:
        self._wait_ms = BACKOFF_MS_MIN

    def reset(self) -> None:
        self._wait_ms = BACKOFF_MS_MIN

    async def wait(self) -> None:
        wait_ms, self._wait_ms = self._wait_ms, min(self._wait_ms * 2, BACKOFF_MS_MAX)
        await asyncio.sleep(wait_ms / 1000)


def _host_and_port(endpoint: str) -> str:
    return endpoint.rpartition("://")[2].rstrip("/")
