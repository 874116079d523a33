"""Channels to the members of an etcd cluster: one in use, the next one tried when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from barnabas_protos.etcd.v1 import rpc_pb2_grpc as rpc

if TYPE_CHECKING:
    # The generated asynchronous flavours exist in the stubs only.
    from barnabas_protos.etcd.v1.rpc_pb2_grpc import KVAsyncStub, LeaseAsyncStub, MaintenanceAsyncStub, WatchAsyncStub

_BACKOFF_MS_MIN = 50
_BACKOFF_MS_MAX = 1000

_OPTIONS: list[tuple[str, int]] = [
    ("grpc.enable_http_proxy", 0),
    # gRPC's own default of up to 120 s would undo any failover.
    ("grpc.initial_reconnect_backoff_ms", _BACKOFF_MS_MIN),
    ("grpc.min_reconnect_backoff_ms", _BACKOFF_MS_MIN),
    ("grpc.max_reconnect_backoff_ms", _BACKOFF_MS_MAX),
    # A member that is a pod comes back at another address; gRPC would look its name up again after half a minute, and
    # leases be lost.
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    # A member that was cut off silently; etcd refuses pings more often than every 5 s.
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.http2.max_pings_without_data", 0),
    # A snapshot of a large cluster comes in one answer; etcd bounds what it accepts, not what it sends.
    ("grpc.max_receive_message_length", -1),
    # gRPC retries a call by itself where it believes that the server did not see it: an answer lost is ours to judge.
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


class EtcdUnavailable(Exception):  # noqa: N818  (an outcome, not a failure)
    """No member answered in time; nothing was changed by this call, for it only read."""


@dataclass(slots=True, frozen=True)
class TlsFiles:
    """PEM files. `certificate` and `key` authenticate this client, where etcd asks for that."""

    authority: str
    certificate: str = ""
    key: str = ""

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            root_certificates=Path(self.authority).read_bytes(),
            private_key=Path(self.key).read_bytes() if self.key else None,
            certificate_chain=Path(self.certificate).read_bytes() if self.certificate else None,
        )


class Connection:
    """The stubs of one member."""

    __slots__ = ("channel", "endpoint", "kv", "lease", "maintenance", "watch")

    def __init__(self, endpoint: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.endpoint = endpoint
        self.channel: grpc.aio.Channel = (
            grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
        )
        self.kv: KVAsyncStub = rpc.KVStub(self.channel)
        self.watch: WatchAsyncStub = rpc.WatchStub(self.channel)
        self.lease: LeaseAsyncStub = rpc.LeaseStub(self.channel)
        self.maintenance: MaintenanceAsyncStub = rpc.MaintenanceStub(self.channel)


class Endpoints:
    """The members of the cluster, of which one is in use until somebody reports that it failed."""

    def __init__(self, endpoints: Sequence[str], tls: TlsFiles | None) -> None:
        """`endpoints` are "host:port", with or without a scheme."""
        assert endpoints, "an etcd client needs an endpoint"
        credentials = tls.credentials() if tls is not None else None
        self._connections = [Connection(_host_and_port(endpoint), credentials) for endpoint in endpoints]
        self._current = 0

    def current(self) -> Connection:
        return self._connections[self._current]

    def leave(self, failed: Connection) -> None:
        """Go on with the next member, unless somebody else has gone on already."""
        if failed is self._connections[self._current]:
            self._current = (self._current + 1) % len(self._connections)

    async def close(self) -> None:
        for connection in self._connections:
            await connection.channel.close(None)


class Backoff:
    """50 ms, doubling up to 1 s, until something worked."""

    __slots__ = ("_wait_ms",)

    def __init__(self) -> None:
        self._wait_ms = _BACKOFF_MS_MIN

    def reset(self) -> None:
        self._wait_ms = _BACKOFF_MS_MIN

    async def wait(self) -> None:
        wait_ms, self._wait_ms = self._wait_ms, min(self._wait_ms * 2, _BACKOFF_MS_MAX)
        await asyncio.sleep(wait_ms / 1000)


def _host_and_port(endpoint: str) -> str:
    return endpoint.rpartition("://")[2].rstrip("/")
