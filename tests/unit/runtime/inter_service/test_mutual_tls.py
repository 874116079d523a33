"""Mutual TLS between services, over real connections: who is let in, what it may call, and what replaces a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from barnabas.cluster.access.service_permissions import CALLERS_BY_METHOD, role_that_serves
from barnabas.cluster.keys import Role
from barnabas.runtime.inter_service import identity
from barnabas.runtime.inter_service.identity import ServiceIdentity
from barnabas.runtime.pem_files import PemError, TlsFiles
from barnabas.runtime.rpc import add_health, add_reflection, create_channel, create_server, stop_server
from barnabas.runtime.streams import ServerStream, StreamHandler, register_stream
from tests.unit.runtime.inter_service.certificates import Certificates, certificates

STREAM = "/barnabas.logstore.v1.Replication/Replicate"
UNARY = "/barnabas.controller.v1.Membership/AlterPartition"
REFUSED = grpc.StatusCode.PERMISSION_DENIED
NOT_THERE = grpc.StatusCode.UNIMPLEMENTED
IN_THE_CLEAR = TlsFiles("")
ATTEMPTS_AFTER_A_WRITE = 5
"""grpc.aio reports INTERNAL, "Internal error from Core", in place of a refusal that arrives while it writes."""


@pytest.fixture(autouse=True)
def forget_identity() -> Iterator[None]:
    yield
    identity.use(None)


@pytest.fixture
def issued(tmp_path: Path) -> Certificates:
    return certificates(tmp_path / "pki")


def refusal(role: Role, method: str) -> bytes:
    return f"a caller that is {role.value} may not call {method}".encode()


class Mirror(StreamHandler):
    def __init__(self, stream: ServerStream) -> None:
        self.stream = stream

    def on_message(self, data: bytes) -> None:
        self.stream.send(data)

    def on_closed(self, reason: str) -> None:
        pass

    def pack_heartbeat(self, count: int) -> bytes:
        return b"beat"


@asynccontextmanager
async def serving(
    own: ServiceIdentity | None, health_address: str = "", health_tls: TlsFiles = IN_THE_CLEAR
) -> AsyncIterator[str]:
    """Serve every method of the table; yield the address."""
    identity.use(own)
    server, port = create_server("127.0.0.1:0")
    health = await add_health(server, probed=(health_address, health_tls))
    add_reflection(server)

    async def answer(request: bytes, _context: object) -> bytes:
        return request

    for method in CALLERS_BY_METHOD:
        service, name = method.strip("/").split("/")
        if name in ("Replicate", "Subscribe", "Control", "Coordinate", "Exchange", "Read", "Watch", "Park"):
            register_stream(server, service, name, Mirror)
        else:
            handlers = {name: grpc.unary_unary_rpc_method_handler(answer)}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await stop_server(server, 0)
        await health.stop(0)


async def mirrored(channel: grpc.aio.Channel, method: str) -> bytes:
    """Send to a stream; return what it sends back. Raises AioRpcError."""
    stream = channel.stream_stream(method, None, None)()
    await stream.write(b"hello")
    answer = await stream.read()
    if not isinstance(answer, bytes):
        raise grpc.aio.AioRpcError(await stream.code(), None, None, await stream.details())  # type: ignore[arg-type]
    stream.cancel()
    return answer


async def call(channel: grpc.aio.Channel, method: str) -> bytes:
    """Call a method of either kind; raises AioRpcError."""
    if method.rpartition("/")[2] in (
        "Replicate",
        "Subscribe",
        "Control",
        "Coordinate",
        "Exchange",
        "Read",
        "Watch",
        "Park",
    ):
        for _ in range(ATTEMPTS_AFTER_A_WRITE):
            try:
                return await mirrored(channel, method)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.INTERNAL:
                    raise
        return await mirrored(channel, method)
    unary = channel.unary_unary(method, None, None)
    answered: bytes = await unary(b"hello", timeout=5)
    return answered


async def outcome(own: ServiceIdentity | None, address: str, method: str) -> grpc.StatusCode:
    """Return how a call of a service with this identity ends."""
    identity.use(own)
    try:
        async with create_channel(address, Role.CONTROLLER) as channel:
            assert await call(channel, method) == b"hello"
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("role", Role)
async def test_each_role_reaches_what_the_table_grants_and_nothing_else(role: Role, issued: Certificates) -> None:
    async with serving(issued.identity("controller")) as address:
        identity.use(issued.identity(role.value))
        async with create_channel(address, Role.CONTROLLER) as channel:
            for method, callers in CALLERS_BY_METHOD.items():
                try:
                    code, details = grpc.StatusCode.OK, await call(channel, method)
                except grpc.aio.AioRpcError as error:
                    code, details = error.code(), (error.details() or "").encode()
                expected = (grpc.StatusCode.OK, b"hello") if role in callers else (REFUSED, refusal(role, method))
                assert (code, details) == expected, method


async def test_a_certificate_without_a_role_or_of_another_cluster_reaches_health_alone(issued: Certificates) -> None:
    async with serving(issued.identity("controller")) as address:
        for roles, domain in (
            ((), "barnabas.internal"),
            (("gateway",), "other.internal"),
            (("admin",), "barnabas.internal"),
        ):
            own = ServiceIdentity(issued.files(*roles, domain=domain), "barnabas.internal")
            assert await outcome(own, address, UNARY) is REFUSED
            assert await outcome(own, address, STREAM) is REFUSED
            async with create_channel(address, Role.CONTROLLER) as channel:
                answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_without_a_certificate_of_the_authority_there_is_no_connection(
    issued: Certificates, tmp_path: Path
) -> None:
    strange = certificates(tmp_path / "other", "other")
    async with serving(issued.identity("controller")) as address:
        assert await outcome(None, address, UNARY) is grpc.StatusCode.UNAVAILABLE
        files = strange.files("logstore")
        trusting = ServiceIdentity(
            TlsFiles(str(issued.directory / "ca.crt"), files.certificate, files.key), "barnabas.internal"
        )
        assert await outcome(trusting, address, UNARY) is grpc.StatusCode.UNAVAILABLE
        expired = ServiceIdentity(issued.files("logstore", name="old", valid=False), "barnabas.internal")
        assert await outcome(expired, address, UNARY) is grpc.StatusCode.UNAVAILABLE
        assert await outcome(issued.identity("logstore"), address, UNARY) is grpc.StatusCode.OK


async def test_a_client_accepts_a_server_of_the_role_that_it_calls_alone(issued: Certificates) -> None:
    async with serving(issued.identity("purgatory")) as address:
        assert await outcome(issued.identity("logstore"), address, UNARY) is grpc.StatusCode.UNAVAILABLE


async def test_probes_ask_for_health_in_the_clear_and_for_nothing_else(
    issued: Certificates, unused_tcp_port: int
) -> None:
    probed = f"127.0.0.1:{unused_tcp_port}"
    async with serving(issued.identity("controller"), probed):
        async with grpc.aio.insecure_channel(probed) as channel:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        assert await outcome(None, probed, UNARY) is NOT_THERE
        assert await outcome(None, probed, STREAM) is NOT_THERE


async def test_a_probe_with_a_services_certificate_is_a_probe(issued: Certificates, unused_tcp_port: int) -> None:
    """The authority of probes may be another one: what its certificates say is no role."""
    probed, files = f"127.0.0.1:{unused_tcp_port}", issued.files("controller")
    async with serving(issued.identity("controller"), probed, files):
        assert await outcome(issued.identity("logstore"), probed, UNARY) is NOT_THERE
        assert await outcome(issued.identity("logstore"), probed, STREAM) is NOT_THERE


async def test_a_replaced_certificate_is_shown_from_the_next_connection_on(issued: Certificates) -> None:
    server, client = issued.identity("controller"), issued.identity("logstore")
    async with serving(server) as address:
        assert await outcome(client, address, UNARY) is grpc.StatusCode.OK
        issued.files("purgatory", name="controller")
        assert await outcome(client, address, UNARY) is grpc.StatusCode.UNAVAILABLE, "the server shows the other role"
        issued.files("controller")
        issued.files("gateway", name="logstore")
        assert await outcome(client, address, UNARY) is REFUSED, "the client shows the other role"
        before = client.generation
        issued.spoil("logstore")
        assert await outcome(client, address, UNARY) is REFUSED, "the last good certificate stays"
        assert client.generation == before
        issued.files("logstore")
        assert await outcome(client, address, UNARY) is grpc.StatusCode.OK
        assert client.generation == before + 1


def test_what_can_not_be_used_is_named(issued: Certificates, tmp_path: Path) -> None:
    files = issued.files("gateway")
    with pytest.raises(PemError, match=r"none\.pem"):
        ServiceIdentity(TlsFiles(files.authority, f"{tmp_path}/none.pem", files.key), "barnabas.internal")
    other = issued.files("logstore")
    with pytest.raises(PemError, match=r"gateway\.pem"):
        ServiceIdentity(TlsFiles(files.authority, files.certificate, other.key), "barnabas.internal")


def test_a_certificate_has_its_roles_as_names(issued: Certificates) -> None:
    content = Path(issued.files("gateway", "logstore").certificate).read_bytes()
    certificate = x509.load_pem_x509_certificate(content[content.index(b"-----BEGIN CERTIFICATE") :])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["gateway.barnabas.internal", "logstore.barnabas.internal"]
    assert role_that_serves(UNARY) is Role.CONTROLLER
