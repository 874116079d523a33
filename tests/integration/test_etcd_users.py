"""An etcd with users: a password, the token that it gives, and what follows when the token ends."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from barnabas.ports.etcd import EtcdRefused, Put, Snapshot, Txn, WatchBatch
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.etcd.authentication import EtcdUser
from barnabas.runtime.pem_files import TlsFiles
from barnabas_cli.__main__ import main
from barnabas_cli.local.certificates import create_authority, issue, write_authority, write_secret
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
            result = await client.txn(Txn((), (Put(f"/b/{number}", b"value"),)))
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


def test_the_charts_job_limits_roles_and_ends_that(tmp_path: Path) -> None:
    now = datetime.fromtimestamp(time.time(), UTC)
    authority = create_authority("etcd", now)
    write_authority(tmp_path, authority)
    hosts = {"etcd": ("127.0.0.1",), "barnabas": (), "gateway": (), "controller": (), "stranger": ()}
    for name, names in hosts.items():
        write_secret(tmp_path / f"{name}.pem", issue(authority, name, names, now))
    process = EtcdProcess(tmp_path, tmp_path / "etcd.pem", tmp_path / "etcd.pem", authority=tmp_path / "ca.crt")
    process.start()

    def run(*options: str) -> None:
        own = str(tmp_path / "barnabas.pem")
        tls = ["--etcd-tls-authority", str(tmp_path / "ca.crt"), "--etcd-tls-certificate", own, "--etcd-tls-key", own]
        arguments = ["kubernetes", "etcd-users", "--etcd", process.endpoint, "--etcd-prefix", "/p/", *tls, *options]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output

    async def writes(name: str, key: str) -> bool:
        own = str(tmp_path / f"{name}.pem")
        files = TlsFiles(str(tmp_path / "ca.crt"), own, own)
        client = EtcdClient([process.endpoint], monotonic_ms, files)
        try:
            await client.txn(Txn((), (Put(key, b"value"),)))
        except EtcdRefused:
            return False
        finally:
            await client.close()
        return True

    keys = ("/p/gateways/any-pod", "/p/logstores/1", "/p/topics/t", "/elsewhere")

    def written() -> dict[str, list[bool]]:
        names = ("barnabas", "controller", "gateway", "stranger", "etcd")
        return {name: [asyncio.run(writes(name, key)) for key in keys] for name in names}

    try:
        # At each upgrade once more.
        for _ in range(2):
            run()
            assert written() == {
                "barnabas": [True, True, True, True],
                "controller": [True, True, True, False],
                "gateway": [True, False, False, False],
                "stranger": [False, False, False, False],
                "etcd": [False, False, False, False],
            }
        run("--no-limits")
        assert all(all(each) for each in written().values())
    finally:
        process.kill()
