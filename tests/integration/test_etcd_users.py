"""An etcd with users: a password, the token that it gives, and what follows when the token ends."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from barnabas.ports.etcd import EtcdRefused, Put, Snapshot, Txn, WatchBatch
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.etcd.authentication import EtcdUser
from tests.integration.etcd_process import EtcdProcess, needs_etcd

pytestmark = needs_etcd
ROOT = EtcdUser("root", "a secret")


def administer(etcd: EtcdProcess, path: str, **body: Any) -> None:
    """Call etcd's own gateway of its API to HTTP."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"http://{etcd.endpoint}/v3/{path}", json.dumps(body).encode())
    with opener.open(request, timeout=10) as response:
        response.read()


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path)
    process.start()
    yield process
    process.kill()


async def with_users(etcd: EtcdProcess) -> None:
    client = EtcdClient([etcd.endpoint], monotonic_ms)
    assert await client.version(timeout_ms=30_000)
    await client.close()
    await asyncio.to_thread(administer, etcd, "auth/user/add", name=ROOT.name, password=ROOT.password)
    await asyncio.to_thread(administer, etcd, "auth/user/grant", user=ROOT.name, role="root")
    await asyncio.to_thread(administer, etcd, "auth/enable")


async def test_a_user_reads_writes_watches_and_renews_through_a_restart_of_etcd(etcd: EtcdProcess) -> None:
    await with_users(etcd)
    client = EtcdClient([etcd.endpoint], monotonic_ms, user=ROOT)
    lease = await client.grant(60_000)
    async with aclosing(client.watch("/b/")) as changes, aclosing(client.renewals(lease)) as renewals:
        assert isinstance(await anext(changes), Snapshot)
        await anext(renewals)
        for number in range(2):
            result = await client.txn(Txn([], [Put(f"/b/{number}", b"value")]))
            assert result.succeeded
            batch = await asyncio.wait_for(anext(changes), 30)
            assert isinstance(batch, WatchBatch)
            assert batch.events[0].key_value.key == f"/b/{number}"
            if number == 0:
                # Its tokens are in memory: those from before are refused afterwards.
                etcd.kill()
                etcd.start()
                assert await client.get("/b/0", timeout_ms=30_000)
    await client.close()


async def test_without_the_password_nothing_is_read(etcd: EtcdProcess) -> None:
    await with_users(etcd)
    for user in (None, EtcdUser("root", "another"), EtcdUser("nobody", "a secret")):
        client = EtcdClient([etcd.endpoint], monotonic_ms, user=user)
        with pytest.raises(EtcdRefused):
            await client.get("/b/0")
        await client.close()
