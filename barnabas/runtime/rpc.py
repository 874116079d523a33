"""gRPC servers and channels with the options that Barnabas needs, health and reflection.

One aio event loop per process: several in one misbehave (grpc issue 25364).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio  # type: ignore[attr-defined] # untyped, re-exported
from grpc_reflection.v1alpha import reflection

from barnabas.cluster.keys import Role
from barnabas.runtime.contained import count_failed_calls
from barnabas.runtime.inter_service import identity
from barnabas.runtime.inter_service.call_guard import CallGuard, RoleCheck
from barnabas.runtime.inter_service.identity import reloading_server_credentials
from barnabas.runtime.pem_files import ReloadedPem, TlsFiles

Options = Sequence[tuple[str, int | str]]

# Above Kafka's default socket.request.max.bytes (100 MiB) plus what else is in the message.
MESSAGE_BYTES_MAX: Final = 256 << 20

# Large frames and lookahead: 1 MB in 1.05 instead of 1.5 ms. The bandwidth probe only delays what the lookahead allows.
DATA_OPTIONS: Final[Options] = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.http2.max_frame_size", 1 << 20),
    ("grpc.http2.lookahead_bytes", 8 << 20),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.write_buffer_size", 4 << 20),
)
# A second process on a port in use is an error, not a half of the connections (SO_REUSEPORT); and a client cannot open
# streams without bound (CVE-2023-44487).
_SERVER_OPTIONS: Final[Options] = (("grpc.so_reuseport", 0), ("grpc.max_concurrent_streams", 1000))
# A proxy from the environment must never be used between pods. Each channel has its own connections: with the global
# pool all channels to an address share one connection and its backoff. gRPC's own backoff of up to 120 s would defeat
# any failover.
_CHANNEL_OPTIONS: Final[Options] = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # The default interval between two resolutions of a name that has moved to another pod's address is half a minute.
    ("grpc.dns_min_time_between_resolutions_ms", 500),
)


def create_server(*addresses: str, options: Options = ()) -> tuple[grpc.aio.Server, int]:
    """Return a server bound to the addresses ("host:port", port 0 for any; "unix:path"), not yet started,

    with the port of the first address. With an identity (`barnabas.runtime.inter_service`) it serves services that have
    a certificate and the role for what they call; probes, which have none, ask a `create_health_server`.

    Raises OSError that names the address if one cannot be bound.
    """
    assert addresses, "a server needs an address"
    own = identity.current()
    if own is None:
        return bind_server(grpc.aio.server(options=server_options(options)), addresses)
    server = grpc.aio.server(options=server_options(options), interceptors=[CallGuard(RoleCheck(own))])
    return bind_server(server, addresses, own.server_credentials())


def create_health_server(address: str, tls: TlsFiles) -> tuple[grpc.aio.Server, int]:
    """Return a server for health alone, not yet started, and its port: `add_health` gives it what it serves.

    Without a certificate in `tls` it is in the clear; with an authority callers need a certificate of that, which
    gives them no role: a server of its own never serves them anything else.

    Raises OSError that names the address or the file.
    """
    credentials = None
    if tls.certificate:
        credentials = reloading_server_credentials(ReloadedPem(tls), requires_certificate=bool(tls.authority))
    return bind_server(grpc.aio.server(options=server_options()), [address], credentials)


def server_options(options: Options = ()) -> Options:
    return [*DATA_OPTIONS, *_SERVER_OPTIONS, *options]


def bind_server(
    server: grpc.aio.Server, addresses: Sequence[str], credentials: grpc.ServerCredentials | None = None
) -> tuple[grpc.aio.Server, int]:
    """Bind a server that has not started to more addresses; return it with the port of the first of them.

    Raises OSError that names the address.
    """
    count_failed_calls()
    ports: list[int] = []
    for address in addresses:
        try:
            if credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: in use or not an address of this host") from error
        ports.append(port)
    return server, ports[0]


def create_channel(
    address: str, server: Role | None, *, options: Options = (), interceptors: Sequence[Any] = ()
) -> grpc.aio.Channel:
    """Return a channel to "host:port" with its own connection; nothing is connected before the first call.

    `server` is the role of the service there: with an identity no other is accepted. None, for what is no service, is
    possible only without one.
    """
    every = [*DATA_OPTIONS, *_CHANNEL_OPTIONS, *options]
    own = identity.current()
    if own is None:
        return grpc.aio.insecure_channel(address, options=every, interceptors=list(interceptors))
    assert server is not None, f"{address} is not a service's, and services talk to no other"
    every += own.channel_options(server)
    return grpc.aio.secure_channel(address, own.channel_credentials(), options=every, interceptors=list(interceptors))


async def stop_server(server: grpc.aio.Server, grace_ms: int) -> None:
    """Refuse new calls at once, give those in progress `grace_ms`, then cancel them."""
    await server.stop(grace_ms / 1000)


LIVENESS: Final = "liveness"
"""For a liveness probe: SERVING as long as the event loop turns, ready or not."""


class Health:
    """The standard health service (grpc.health.v1) of one server: "" is the whole server."""

    def __init__(
        self, servicer: health_aio.HealthServicer, services: Sequence[str], probed: grpc.aio.Server | None
    ) -> None:
        self._servicer = servicer
        self._services = ("", *services)
        self._probed = probed

    async def set_serving(self, serving: bool) -> None:
        """Tell probes whether to send traffic here."""
        for service in self._services:
            await self.set_service(service, serving)

    async def set_service(self, service: str, serving: bool) -> None:
        """Set the health of one service under its own name, separate from what is served."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        await self._servicer.set(service, status)

    async def stop(self, grace_ms: int) -> None:
        """Stop the server of the probes, if there is one."""
        if self._probed is not None:
            await stop_server(self._probed, grace_ms)


async def add_health(
    server: grpc.aio.Server, *services: str, serving: bool = True, probed: tuple[str, TlsFiles] | None = None
) -> Health:
    """Answer grpc.health.v1 for the server and the services named.

    `probed` is where probes ask for the same, as `create_health_server` takes it, if the address is not empty; that
    server is started at once. Raises OSError.
    """
    servicer = health_aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    probe_server = None
    if probed is not None and probed[0]:
        probe_server, _ = create_health_server(*probed)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, probe_server)
    health = Health(servicer, services, probe_server)
    await health.set_serving(serving)
    await health.set_service(LIVENESS, True)
    if probe_server is not None:
        await probe_server.start()
    return health


def add_reflection(server: grpc.aio.Server, *services: str) -> None:
    """Make the services named visible to grpcurl ("barnabas.controller.v1.Operations"); their generated modules are
    loaded.
    """
    health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    reflection.enable_server_reflection([*services, health_name, reflection.SERVICE_NAME], server)
