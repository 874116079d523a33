"""Scrapes by TLS, with certificates and with tokens; and who gets nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.metrics.family import Family, Kind, Sample
from barnabas.runtime.metrics.endpoint import MetricsEndpoint
from barnabas.runtime.metrics.listener import bind_metrics
from barnabas.runtime.metrics.security import OPEN, MetricsSecurity
from barnabas.runtime.pem_files import PemError, TlsFiles
from barnabas_cli import bundle
from barnabas_cli.local.certificates import create_authority
from barnabas_cli.operator_access import OperatorAccess
from tests.unit.runtime.inter_service.certificates import NOW, Certificates

SIZE = Family("kafka_queue_size", Kind.GAUGE, "How many wait.")


async def samples() -> Iterable[Sample]:
    return [Sample(SIZE, (), 1.5)]


class Scraped:
    """An endpoint, and what a scraper gets there."""

    def __init__(self, security: MetricsSecurity) -> None:
        bound = bind_metrics("127.0.0.1:0")
        assert bound is not None
        self.port: int = bound.getsockname()[1]
        self.endpoint = MetricsEndpoint(bound, samples, security)
        self.endpoint.start()

    async def scrape(self, trusted: TlsFiles | None, token: str = "") -> str:
        """Return the metrics, the HTTP status of a refusal, or "no connection"."""

        def get() -> str:
            scheme, context = "http", None
            if trusted is not None:
                scheme, context = "https", ssl.create_default_context(cafile=trusted.authority)
                if trusted.certificate:
                    context.load_cert_chain(trusted.certificate, trusted.key)
            headers = {"Authorization": token} if token else {}
            request = urllib.request.Request(f"{scheme}://127.0.0.1:{self.port}/metrics", headers=headers)
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            try:
                with opener.open(request, timeout=20) as response:
                    text: str = response.read().decode()
                    return text
            except urllib.error.HTTPError as refused:
                return str(refused.code)
            except OSError:
                return "no connection"

        return await asyncio.to_thread(get)

    async def stop(self) -> None:
        await asyncio.to_thread(self.endpoint.stop)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path, create_authority("test", NOW))


async def test_certificates_of_scrapers(certificates: Certificates, tmp_path: Path) -> None:
    own, scraper = certificates.plain_files("metrics", "127.0.0.1"), certificates.plain_files("scraper")
    served = Scraped(MetricsSecurity(own.authority, own.certificate, own.key))
    other = tmp_path / "other"
    other.mkdir()
    stranger = Certificates(other, create_authority("other", NOW)).plain_files("scraper")
    assert "kafka_queue_size 1.5" in await served.scrape(scraper)
    assert await served.scrape(TlsFiles(own.authority)) == "no connection"
    assert await served.scrape(replace(stranger, authority=own.authority)) == "no connection"
    assert await served.scrape(None) == "no connection"
    access = OperatorAccess(tls=scraper)
    found = await asyncio.to_thread(bundle._scrape, f"127.0.0.1:{served.port}", access)
    assert b"kafka_queue_size 1.5" in found
    certificates.plain_files("metrics", "other.example")
    assert await served.scrape(scraper) == "no connection", "the replaced certificate has another name"
    certificates.plain_files("metrics", "127.0.0.1")
    assert "kafka_queue_size 1.5" in await served.scrape(scraper)
    await served.stop()


async def test_a_bundle_reads_endpoints_in_the_clear_too(certificates: Certificates) -> None:
    served = Scraped(OPEN)
    access = OperatorAccess(tls=certificates.plain_files("scraper"))
    assert b"kafka_queue_size 1.5" in await asyncio.to_thread(bundle._scrape, f"127.0.0.1:{served.port}", access)
    await served.stop()


async def test_tokens_of_scrapers(certificates: Certificates, tmp_path: Path) -> None:
    own = certificates.plain_files("metrics", "127.0.0.1")
    path = tmp_path / "token"
    path.write_text("secret\n")
    served = Scraped(MetricsSecurity("", own.certificate, own.key, str(path)))
    trusted = TlsFiles(own.authority)
    assert "kafka_queue_size 1.5" in await served.scrape(trusted, "Bearer secret")
    for wrong in ("", "Bearer other", "Bearer", "secret", "Basic c2VjcmV0"):
        assert await served.scrape(trusted, wrong) == "401"
    path.write_text("next")
    assert await served.scrape(trusted, "Bearer secret") == "401"
    assert "kafka_queue_size 1.5" in await served.scrape(trusted, "bearer next")
    path.write_text("")
    assert await served.scrape(trusted, "Bearer ") == "401", "an empty token is none"
    await served.stop()


async def test_a_client_that_sends_nothing_holds_up_no_other(certificates: Certificates) -> None:
    own = certificates.plain_files("metrics", "127.0.0.1")
    served = Scraped(MetricsSecurity("", own.certificate, own.key))
    with socket.create_connection(("127.0.0.1", served.port)):
        assert "kafka_queue_size 1.5" in await served.scrape(TlsFiles(own.authority))
    await served.stop()


@pytest.mark.parametrize(
    "security",
    [
        MetricsSecurity(certificate="a"),
        MetricsSecurity(key="a"),
        MetricsSecurity(authority="a"),
        MetricsSecurity(token_file="a"),
    ],
)
def test_halves_are_refused(security: MetricsSecurity) -> None:
    with pytest.raises(ValueError, match="metrics"):
        security.check()


async def test_files_that_are_not_there_are_named(certificates: Certificates) -> None:
    own = certificates.plain_files("metrics", "127.0.0.1")
    for security, missing in (
        (MetricsSecurity("", "/none.pem", own.key), "/none.pem"),
        (MetricsSecurity("", own.certificate, own.key, "/none"), "/none"),
    ):
        bound = bind_metrics("127.0.0.1:0")
        assert bound is not None
        with pytest.raises((PemError, OSError), match=missing):
            MetricsEndpoint(bound, samples, security)
        bound.close()
