"""Every service reaches an etcd that speaks TLS only, by the same three keys."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.runtime.configuration.config import ConfigError, build_config
from barnabas.runtime.etcd import EtcdConfig, EtcdUnavailable
from barnabas_controller.shell.config import ControllerConfig
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_purgatory.shell.config import PurgatoryConfig
from tests.integration.etcd_process import EtcdProcess, needs_etcd

pytestmark = pytest.mark.deep
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not on PATH")

OWN_KEYS: dict[type[EtcdConfig], dict[str, str]] = {
    ControllerConfig: {},
    GatewayProperties: {"gateway.id": "gateway-0"},
    LogstoreSettings: {"node.id": "1", "log.dirs": "/data"},
    PurgatoryConfig: {"pod.id": "purgatory-0"},
}


def configured(service: type[EtcdConfig], **keys: str) -> EtcdConfig:
    values = {"etcd.endpoints": "127.0.0.1:2379"} | OWN_KEYS[service]
    values |= {key.replace("_", "."): value for key, value in keys.items()}
    return build_config(service, {key: (value, "--set") for key, value in values.items()})


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that is its own authority, and its key: good for both sides."""
    directory = tmp_path_factory.mktemp("pem")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory, pem: tuple[Path, Path]) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path_factory.mktemp("etcd"), *pem)
    process.start()
    yield process
    process.kill()


@needs_etcd
@pytest.mark.parametrize("service", OWN_KEYS)
@needs_openssl
async def test_a_service_trusts_and_shows_the_configured_certificates(
    service: type[EtcdConfig], etcd: EtcdProcess, pem: tuple[Path, Path]
) -> None:
    certificate, key = map(str, pem)
    config = configured(
        service,
        etcd_endpoints=etcd.endpoint,
        etcd_tls_authority=certificate,
        etcd_tls_certificate=certificate,
        etcd_tls_key=key,
    )
    client = config.etcd_client()
    assert await client.version(timeout_ms=30_000)
    await client.close()


@needs_etcd
@needs_openssl
async def test_without_tls_such_an_etcd_does_not_answer(etcd: EtcdProcess) -> None:
    client = configured(PurgatoryConfig, etcd_endpoints=etcd.endpoint).etcd_client()
    with pytest.raises(EtcdUnavailable):
        await client.version(timeout_ms=500)
    await client.close()


@pytest.mark.parametrize("service", OWN_KEYS)
@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"etcd_tls_certificate": "/c.pem", "etcd_tls_authority": "/a.pem"}, "etcd.tls.key"),
        ({"etcd_tls_key": "/k.pem", "etcd_tls_authority": "/a.pem"}, "etcd.tls.certificate"),
        ({"etcd_tls_certificate": "/c.pem", "etcd_tls_key": "/k.pem"}, "etcd.tls.authority"),
        ({"etcd_prefix": "/barnabas"}, "etcd.prefix"),
    ],
)
def test_half_a_configuration_is_refused(service: type[EtcdConfig], keys: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        configured(service, **keys)


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = configured(PurgatoryConfig, etcd_tls_authority=f"{tmp_path}/none.pem")
    with pytest.raises(OSError, match=r"none\.pem"):
        config.etcd_client()
