"""Clients that never get in: wrong passwords, half-open handshakes, large frames. Others are served meanwhile, and no
process grows by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from barnabas.wire.codec import encode_request
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.integration.running_cluster import RunningCluster
from tests.integration.test_secure_listeners import Secured

pytestmark = pytest.mark.deep
"""`tests/unit/gateway/authentication` has each of these alone."""

PASSWORDS = int(os.environ.get("BARNABAS_HOSTILE_PASSWORDS", "1000"))
"""10,000 for a measurement: a minute and more."""
HALF_OPEN = 1_000
AT_ONCE = 100
GROWTH_BYTES_MAX = 20 << 20
WAIT_SECONDS_MAX = 5.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="module")
def cluster(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, secured.properties) as running:
        yield running


class Gateway:
    """Its processes, and how much they had before."""

    def __init__(self, cluster: RunningCluster) -> None:
        parent = psutil.Process(cluster.pids["gateway"])
        self.processes = [parent, *parent.children(recursive=True)]
        self._before = self._resident()

    def _resident(self) -> dict[int, int]:
        return {each.pid: each.memory_info().rss for each in self.processes}

    def check(self) -> int:
        """All processes live, and none has grown by much. Return the largest growth."""
        assert all(each.is_running() for each in self.processes)
        growth = max(now - self._before[pid] for pid, now in self._resident().items())
        assert growth <= GROWTH_BYTES_MAX, f"a process grew by {growth} bytes"
        return growth


class Served:
    """A client that goes on producing, with the longest time that one record took."""

    def __init__(self, config: dict[str, Any]) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({**config, "linger.ms": 0})
        self.longest_s = 0.0
        self.records = 0

    def produce(self) -> None:
        began = time.monotonic()
        failures: list[Any] = []
        self._producer.produce(
            "served", b"x" * 100, on_delivery=lambda error, _: failures.append(error) if error else None
        )
        assert self._producer.flush(20) == 0
        assert not failures
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.records += 1

    async def go_on(self, until: asyncio.Event) -> None:
        while not until.is_set():
            await asyncio.to_thread(self.produce)
            await asyncio.sleep(0.05)


def frames(password: str) -> bytes:
    return b"".join(
        bytes(part)
        for request, version in (
            (SaslHandshakeRequest("PLAIN"), 1),
            (SaslAuthenticateRequest(f"\0alice\0{password}".encode()), 1),
        )
        for part in encode_request(request, version, 1, "hostile")
    )


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    shaking = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    return outgoing.read()


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def guess(address: str, count: int, permits: asyncio.Semaphore) -> None:
    async with permits:
        reader, writer = await connect(address)
        writer.write(frames(f"guess-{count}"))
        said = await asyncio.wait_for(reader.read(), 20)
        assert b"Invalid username or password" in said
        writer.close()


async def beside(served: Served, attack: Any) -> None:
    """Run an attack while another client is served."""
    over = asyncio.Event()
    serving = asyncio.create_task(served.go_on(over))
    try:
        await attack
    finally:
        over.set()
        await serving


def test_wrong_passwords(cluster: RunningCluster, secured: Secured) -> None:
    served = Served(secured.librdkafka("SASL_PLAINTEXT", "plain"))
    served.produce()
    address = secured.bootstrap("SASL_PLAINTEXT")

    async def attack(count: int) -> None:
        permits = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(guess(address, number, permits) for number in range(count)))

    asyncio.run(attack(AT_ONCE))
    gateway = Gateway(cluster)
    began, served.longest_s = time.monotonic(), 0.0
    asyncio.run(beside(served, attack(PASSWORDS)))
    growth = gateway.check()
    assert served.longest_s < WAIT_SECONDS_MAX
    seconds = time.monotonic() - began
    print(
        f"{PASSWORDS} wrong passwords in {seconds:.1f} s; the largest growth of a process is {growth >> 10} KiB, "
        f"of {served.records} records beside them the slowest took {served.longest_s * 1000:.0f} ms"
    )


def test_half_open_handshakes(cluster: RunningCluster, secured: Secured) -> None:
    served = Served(secured.librdkafka("SSL"))
    served.produce()
    gateway = Gateway(cluster)
    address = secured.bootstrap("SSL")

    hello = client_hello()

    async def attack() -> None:
        opened = [await connect(address) for _ in range(HALF_OPEN)]
        for number, (_, writer) in enumerate(opened):
            writer.write(hello if number % 2 else hello[: number % len(hello)])
        await asyncio.sleep(2)
        growth = gateway.check()
        print(f"{HALF_OPEN} half-open handshakes: the largest growth of a process is {growth >> 10} KiB")
        ended = [asyncio.wait_for(reader.read(), 30) for reader, _ in opened]
        await asyncio.gather(*ended, return_exceptions=True)
        for reader, writer in opened:
            assert reader.at_eof() or reader.exception() is not None, "it is closed in time"
            writer.close()

    asyncio.run(beside(served, attack()))
    gateway.check()
    assert served.longest_s < WAIT_SECONDS_MAX
    print(f"of {served.records} records beside them the slowest took {served.longest_s * 1000:.0f} ms")


def test_large_frames_before_authentication(cluster: RunningCluster, secured: Secured) -> None:
    """As many as 100 MB each are announced; what is sent of them is not kept."""
    served = Served(secured.librdkafka("SASL_PLAINTEXT", "plain"))
    served.produce()
    gateway = Gateway(cluster)

    async def large(size: int, sent: int, after_handshake: bool) -> None:
        _, writer = await connect(secured.bootstrap("SASL_PLAINTEXT"))
        with contextlib.suppress(ConnectionError):
            if after_handshake:
                writer.write(b"".join(map(bytes, encode_request(SaslHandshakeRequest("PLAIN"), 1, 1, "hostile"))))
            writer.write(struct.pack(">i", size))
            for _ in range(sent >> 16):
                writer.write(bytes(1 << 16))
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    async def attack() -> None:
        await asyncio.gather(*(large(100 << 20, 4 << 20, False) for _ in range(50)))
        await asyncio.gather(*(large(100 << 20, 4 << 20, True) for _ in range(50)))
        await asyncio.gather(*(large(500 << 10, 400 << 10, True) for _ in range(20)))

    asyncio.run(beside(served, attack()))
    gateway.check()
    assert served.longest_s < WAIT_SECONDS_MAX


def test_the_log_is_not_filled(cluster: RunningCluster, secured: Secured) -> None:
    """Ten lines in ten seconds for an address, however many passwords it guesses."""
    path = Path(cluster.directory.log_path("gateway"))
    failures = [line for line in path.read_text().splitlines() if "authentication failed" in line]
    assert 0 < len(failures) < 200
    assert not any("guess-" in line for line in failures)
