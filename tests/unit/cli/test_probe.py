"""`barnabas probe`, and the port for probes that it asks: in the clear, by TLS, and with a certificate."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.runtime.pem_files import PemError, TlsFiles
from barnabas.runtime.rpc import Health, add_health, create_health_server
from barnabas_cli.__main__ import main
from tests.unit.runtime.inter_service.certificates import Certificates, certificates

NAME = "gateway.barnabas.internal"


@pytest.fixture
def issued(tmp_path: Path) -> Certificates:
    return certificates(tmp_path / "pki")


@dataclass(slots=True)
class Probed:
    address: str
    health: Health

    async def ask(self, *options: str) -> Result:
        """Run the command, while this loop serves."""
        arguments = ["probe", self.address, "--timeout", "5", *options]
        return await asyncio.to_thread(CliRunner().invoke, main, arguments)


@asynccontextmanager
async def probed(tls: TlsFiles) -> AsyncIterator[Probed]:
    server, port = create_health_server("127.0.0.1:0", tls)
    health = await add_health(server, "in-sync", serving=False)
    await server.start()
    try:
        yield Probed(f"127.0.0.1:{port}", health)
    finally:
        await server.stop(0)


def by_tls(files: TlsFiles) -> tuple[str, ...]:
    return ("--tls-authority", files.authority, "--tls-server-name", NAME)


def own(files: TlsFiles) -> tuple[str, ...]:
    return ("--tls-certificate", files.certificate, "--tls-key", files.key)


async def test_the_exit_code_is_the_health() -> None:
    async with probed(TlsFiles("")) as there:
        not_yet = await there.ask()
        assert (not_yet.exit_code, not_yet.output) == (1, "NOT_SERVING\n")
        alive = await there.ask("--service", "liveness")
        assert (alive.exit_code, alive.output) == (0, "SERVING\n")
        await there.health.set_service("in-sync", True)
        assert (await there.ask("--service", "in-sync")).exit_code == 0
        unknown = await there.ask("--service", "else")
        assert (unknown.exit_code, "NOT_FOUND" in unknown.output) == (1, True)


async def test_a_certificate_makes_it_tls(issued: Certificates) -> None:
    files = issued.files("gateway")
    async with probed(TlsFiles("", files.certificate, files.key)) as there:
        assert (await there.ask("--service", "liveness", *by_tls(files))).exit_code == 0
        assert (await there.ask("--service", "liveness")).exit_code == 1
        named = await there.ask("--service", "liveness", "--tls-authority", files.authority)
        assert named.exit_code == 1, "the certificate has no address"


async def test_an_authority_wants_a_certificate_of_it(issued: Certificates, tmp_path: Path) -> None:
    files = issued.files("gateway")
    other = certificates(tmp_path / "other", "other").files("gateway")
    async with probed(files) as there:
        asked = ("--service", "liveness", *by_tls(files))
        assert (await there.ask(*asked, *own(files))).exit_code == 0
        assert (await there.ask(*asked)).exit_code == 1
        assert (await there.ask(*asked, *own(other))).exit_code == 1


async def test_a_replaced_certificate_is_the_next_ones(issued: Certificates) -> None:
    files = issued.files("gateway", name="probes")
    async with probed(TlsFiles("", files.certificate, files.key)) as there:
        assert (await there.ask("--service", "liveness", *by_tls(files))).exit_code == 0
        issued.files("logstore", name="probes")
        assert (await there.ask("--service", "liveness", *by_tls(files))).exit_code == 1


async def test_files_that_are_none_are_named() -> None:
    with pytest.raises(PemError, match=re.escape("/nowhere.pem: No such file")):
        create_health_server("127.0.0.1:0", TlsFiles("", "/nowhere.pem", "/nowhere.pem"))


@pytest.mark.parametrize(
    "options", [("--tls-certificate", "a.pem"), ("--tls-certificate", "a.pem", "--tls-key", "a.pem")]
)
def test_half_of_the_options_is_a_usage_error(options: tuple[str, ...]) -> None:
    refused = CliRunner().invoke(main, ["probe", "127.0.0.1:1", *options])
    assert refused.exit_code == 2
    assert "tls.certificate needs tls.key and tls.authority" in refused.output
