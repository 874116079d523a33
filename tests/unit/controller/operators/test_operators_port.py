"""The operators' port over real connections: certificates, tokens, roles, and configurations that are refused."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from barnabas.runtime.configuration.config import ConfigError, build_config
from barnabas.runtime.pem_files import TlsFiles
from barnabas.runtime.rpc import add_health
from barnabas_cli.operator_access import OperatorAccess
from barnabas_controller.shell.config import ControllerConfig
from barnabas_controller.shell.operators.call_records import CallRecords
from barnabas_controller.shell.operators.server import create_operators_server
from tests.unit.controller.operators.test_call_records import Kept
from tests.unit.controller.operators.test_operator_tokens import AUDIENCE, CLAIMS, EC, ISSUER, RSA, signed, write_keys
from tests.unit.runtime.inter_service.certificates import Certificates, certificates

LIST, PAUSE, DELETE = ("ListTopics", "PauseBalance", "DeleteTopic")
SERVICE = "barnabas.controller.v1.Operations"
OK, DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
UNKNOWN, UNREACHABLE = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE


def configured(**keys: str) -> ControllerConfig:
    given = {"etcd.endpoints": "etcd:2379", "operations.listeners": "127.0.0.1:0"}
    given |= {key.replace("_", "."): value for key, value in keys.items()}
    return build_config(ControllerConfig, {key: (value, "--set") for key, value in given.items()})


@asynccontextmanager
async def serving(config: ControllerConfig, records: CallRecords | None = None) -> AsyncIterator[str]:
    server, port = create_operators_server(config, records)
    await add_health(server)

    async def answer(request: bytes, _context: object) -> bytes:
        return request

    handlers = {name: grpc.unary_unary_rpc_method_handler(answer) for name in (LIST, PAUSE, DELETE)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def credentials_of(tls: TlsFiles) -> grpc.ChannelCredentials:
    contents = [Path(path).read_bytes() if path else None for path in (tls.authority, tls.key, tls.certificate)]
    return grpc.ssl_channel_credentials(*contents)


async def outcomes(address: str, access: OperatorAccess, name: str = "localhost") -> list[grpc.StatusCode]:
    """Return how a viewer's, an operator's and an admin's method end."""
    options: Any = [("grpc.ssl_target_name_override", name)]
    if access.tls.authority:
        channel = grpc.aio.secure_channel(address, credentials_of(access.tls), options)
    else:
        channel = grpc.aio.insecure_channel(address)
    found = []
    async with channel:
        for method in (LIST, PAUSE, DELETE):
            call = channel.unary_unary(f"/{SERVICE}/{method}", None, None)
            try:
                await call(b"x", timeout=5, metadata=access.metadata)
                found.append(OK)
            except grpc.aio.AioRpcError as error:
                found.append(error.code())
    return found


@pytest.fixture
def issued(tmp_path: Path) -> Certificates:
    return certificates(tmp_path / "pki")


def own(issued: Certificates) -> dict[str, str]:
    files = issued.plain_files("controller", "localhost")
    return {"operations_tls_certificate": files.certificate, "operations_tls_key": files.key}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("viewer", [OK, DENIED, DENIED]),
        ("operator", [OK, OK, DENIED]),
        ("admin", [OK, OK, OK]),
        ("alice", [OK, OK, DENIED]),
        ("gateway", [DENIED] * 3),
    ],
)
async def test_a_certificate_names_its_caller(name: str, expected: list[grpc.StatusCode], issued: Certificates) -> None:
    config = configured(
        **own(issued), operations_tls_authority=str(issued.directory / "ca.crt"), operations_operators="operator,alice"
    )
    async with serving(config) as address:
        assert await outcomes(address, OperatorAccess(tls=issued.plain_files(name))) == expected


async def test_without_a_certificate_of_the_authority_there_is_no_connection(
    issued: Certificates, tmp_path: Path
) -> None:
    config = configured(**own(issued), operations_tls_authority=str(issued.directory / "ca.crt"))
    strange = certificates(tmp_path / "other", "other").plain_files("admin")
    trusting = TlsFiles(str(issued.directory / "ca.crt"), strange.certificate, strange.key)
    async with serving(config) as address:
        for tls in (TlsFiles(""), TlsFiles(str(issued.directory / "ca.crt")), trusting):
            assert await outcomes(address, OperatorAccess(tls=tls)) == [UNREACHABLE] * 3


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"roles": ["viewer"]}, [OK, DENIED, DENIED]),
        ({"roles": ["operator", "viewer"]}, [OK, OK, DENIED]),
        ({"roles": ["admin"]}, [OK, OK, OK]),
        ({"sub": "alice", "roles": []}, [OK, DENIED, DENIED]),
        ({"roles": ["other"], "sub": "bob"}, [DENIED] * 3),
        ({"aud": "other"}, [UNKNOWN] * 3),
        ({"exp": 1}, [UNKNOWN] * 3),
    ],
)
async def test_a_token_names_its_caller(
    claims: dict[str, Any], expected: list[grpc.StatusCode], issued: Certificates, tmp_path: Path
) -> None:
    write_keys(tmp_path / "jwks.json", RSA, EC)
    config = configured(
        **own(issued),
        operations_token_issuer=ISSUER,
        operations_token_audience=AUDIENCE,
        operations_token_jwks=str(tmp_path / "jwks.json"),
        operations_viewers="viewer,alice",
    )
    token = signed({**CLAIMS, "exp": int(time.time()) + 60} | claims)
    tls = TlsFiles(str(issued.directory / "ca.crt"))
    async with serving(config) as address:
        assert await outcomes(address, OperatorAccess(tls=tls, token=token)) == expected
        assert await outcomes(address, OperatorAccess(tls=tls)) == [UNKNOWN] * 3
        assert await outcomes(address, OperatorAccess(tls=tls, token="garbage")) == [UNKNOWN] * 3


async def test_every_call_is_recorded_with_its_verdict(issued: Certificates) -> None:
    config = configured(**own(issued), operations_tls_authority=str(issued.directory / "ca.crt"))
    records = Kept("controller-1")
    async with serving(config, records) as address:
        assert await outcomes(address, OperatorAccess(tls=issued.plain_files("viewer"))) == [OK, DENIED, DENIED]
    assert [(each.principal, each.operation.rpartition("/")[2], each.verdict) for each in records.calls] == [
        ("viewer", LIST, "allowed"),
        ("viewer", PAUSE, "denied"),
        ("viewer", DELETE, "denied"),
    ]
    assert [bool(each.reason) for each in records.calls] == [False, True, True]


async def test_on_a_loopback_address_no_authentication_is_needed_by_default() -> None:
    async with serving(configured()) as address:
        assert await outcomes(address, OperatorAccess()) == [OK, OK, OK]


async def test_health_is_open_to_everyone(issued: Certificates, tmp_path: Path) -> None:
    write_keys(tmp_path / "jwks.json", RSA)
    config = configured(
        operations_token_issuer=ISSUER,
        operations_token_audience=AUDIENCE,
        operations_token_jwks=str(tmp_path / "jwks.json"),
    )
    async with serving(config) as address, grpc.aio.insecure_channel(address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        assert await outcomes(address, OperatorAccess()) == [UNKNOWN] * 3


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"operations_listeners": "0.0.0.0:9090"}, "open to other hosts"),
        ({"operations_listeners": "0.0.0.0"}, "host:port"),
        ({"operations_listeners": "0.0.0.0:9091"}, "open to other hosts"),
        ({"operations_listeners": "127.0.0.1:9091"}, "one of its own"),
        ({"operations_authentication": "certificate"}, r"operations\.tls\.authority"),
        ({"operations_authentication": "token"}, r"operations\.token\.issuer"),
        ({"operations_authentication": "password"}, "expected one of"),
        ({"operations_tls_certificate": "/c.pem"}, r"operations\.tls\.key"),
        ({"operations_tls_authority": "/a.pem"}, r"operations\.tls\.certificate"),
        ({"operations_token_issuer": "x"}, "audience"),
        (
            {
                "operations_token_issuer": "x",
                "operations_token_audience": "x",
                "operations_token_jwks": "/x",
                "operations_listeners": "0.0.0.0:9090",
            },
            "tokens are secrets",
        ),
        (
            {
                "operations_token_issuer": "x",
                "operations_token_audience": "x",
                "operations_token_jwks": "http://x",
            },
            "https",
        ),
    ],
)
def test_a_configuration_that_opens_the_port_by_mistake_is_refused(keys: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        configured(**keys)


def test_it_can_be_opened_on_purpose() -> None:
    config = configured(operations_listeners="0.0.0.0:9090", operations_authentication="none")
    assert config.authentication_of_operators == "none"
