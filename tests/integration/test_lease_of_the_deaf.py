"""Found by faults: a logstore that could not receive was still heard by etcd, and led for almost two more leases."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from tests.integration.etcd_process import EtcdProcess, needs_etcd

pytestmark = [pytest.mark.integration, needs_etcd, pytest.mark.deep]


class OneWayLink:
    """Carries bytes between a client and etcd; once `is_deaf`, only those of the client arrive."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self._etcd = host, int(port)
        self.is_deaf = False
        self.endpoint = ""
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        etcd_reader, etcd_writer = await asyncio.open_connection(*self._etcd)
        for source, target, is_heard in ((reader, etcd_writer, True), (etcd_reader, writer, False)):
            self._pumps.add(asyncio.create_task(self._pump(source, target, is_always_heard=is_heard)))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_always_heard: bool) -> None:
        try:
            while data := await source.read(65536):
                if is_always_heard or not self.is_deaf:
                    target.write(data)
                    await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()


async def test_who_hears_nothing_renews_nothing(tmp_path: Path) -> None:
    etcd = EtcdProcess(tmp_path)
    etcd.start()
    # As if they led to three members.
    links = [OneWayLink(etcd.endpoint) for _ in range(3)]
    observer = EtcdClient([etcd.endpoint], monotonic_ms)
    try:
        await observer.version()
        for link in links:
            await link.start()
        client = EtcdClient([link.endpoint for link in links], monotonic_ms)
        lease = await client.grant(3_000)

        async def renew() -> None:
            async with aclosing(client.renewals(lease)) as renewals:
                async for _ in renewals:
                    pass

        renewing = asyncio.create_task(renew())
        await asyncio.sleep(4)
        assert await observer.time_to_live_ms(lease.lease_id) > 0, "it lives as long as its owner hears"
        for link in links:
            link.is_deaf = True
        await asyncio.sleep(5)
        assert await observer.time_to_live_ms(lease.lease_id) < 0
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await client.close()
    finally:
        for link in links:
            await link.stop()
        await observer.close()
        etcd.kill()
