"""The etcd client against a real etcd, through what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from shutil import rmtree

import pytest

from barnabas.ports.etcd import (
    AmbiguousResult,
    Delete,
    EtcdRefused,
    Get,
    KeyValue,
    Put,
    Snapshot,
    Txn,
    WatchBatch,
    WatchEvent,
    absent,
)
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient, EtcdUnavailable
from tests.integration.etcd_process import EtcdProcess, needs_etcd
from tests.integration.reserved_ports import free_port

pytestmark = [pytest.mark.integration, needs_etcd]

Changes = AsyncGenerator[Snapshot | WatchBatch, None]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path)
    process.start()
    yield process
    process.kill()


@pytest.fixture
async def client(etcd: EtcdProcess) -> AsyncIterator[EtcdClient]:
    client = EtcdClient([etcd.endpoint], monotonic_ms)
    await client.version()
    yield client
    await client.close()


def put(key: str, value: bytes = b"", lease: int = 0) -> Txn:
    return Txn((), (Put(key, value, lease),))


async def next_batch(changes: Changes) -> WatchBatch:
    batch = await anext(changes)
    assert isinstance(batch, WatchBatch)
    return batch


async def test_a_txn_whose_compares_hold_happens_as_one_revision(client: EtcdClient) -> None:
    first = await client.txn(Txn((absent("/a"),), (Put("/a", b"1"), Put("/b", b"2"))))
    assert first.succeeded
    snapshot = await client.get_prefix("/")
    assert [(each.key, each.value, each.mod_revision) for each in snapshot.key_values] == [
        ("/a", b"1", first.revision),
        ("/b", b"2", first.revision),
    ]
    again = await client.txn(Txn((absent("/a"),), (Put("/a", b"3"),), (Get("/a"), Get("/none"))))
    assert not again.succeeded
    assert again.reads == ((KeyValue("/a", b"1", first.revision, first.revision),), ())


async def test_a_refused_txn_is_not_ambiguous(client: EtcdClient) -> None:
    with pytest.raises(EtcdRefused, match="lease not found"):
        await client.txn(put("/a", lease=12345))
    with pytest.raises(EtcdRefused, match="too many operations"):
        await client.txn(Txn((), tuple(Put(f"/{number}", b"") for number in range(129))))
    assert await client.get("/a") is None


async def test_a_txn_whose_answer_is_lost_is_ambiguous_and_was_applied(client: EtcdClient, etcd: EtcdProcess) -> None:
    """A proxy takes the answer away: all that the client can do is to read back."""
    proxy = AnswerEater(etcd.endpoint)
    port = await proxy.start()
    through = EtcdClient([f"127.0.0.1:{port}"], monotonic_ms, request_timeout_ms=1000)
    await through.version()
    proxy.eating = True
    with pytest.raises(AmbiguousResult):
        await through.txn(Txn((absent("/a"),), (Put("/a", b"1"),)))
    found = await client.get("/a")
    assert found is not None
    assert found.value == b"1"
    await through.close()
    await proxy.stop()


async def test_a_txn_to_an_etcd_that_is_down_is_ambiguous_and_never_sent_again(
    client: EtcdClient, etcd: EtcdProcess
) -> None:
    etcd.kill()
    with pytest.raises(AmbiguousResult):
        await client.txn(put("/a"))
    etcd.start()
    await client.version(timeout_ms=10_000)
    await client.txn(put("/b"))
    assert await client.get("/a") is None


async def test_a_watch_goes_on_after_a_restart_without_a_gap(client: EtcdClient, etcd: EtcdProcess) -> None:
    other = EtcdClient([etcd.endpoint], monotonic_ms)
    async with aclosing(client.watch("/w/")) as changes:
        assert isinstance(await anext(changes), Snapshot)
        await other.txn(put("/w/1"))
        await other.txn(put("/elsewhere"))
        assert [event.key_value.key for event in (await next_batch(changes)).events] == ["/w/1"]
        etcd.kill()
        etcd.start()
        await other.version(timeout_ms=10_000)
        await other.txn(put("/w/2"))
        await other.txn(Txn((), (Delete("/w/1"), Put("/w/3", b""))))
        events: list[WatchEvent] = []
        while len(events) < 3:
            events += (await next_batch(changes)).events
        assert [(event.key_value.key, event.deleted) for event in events] == [
            ("/w/2", False),
            ("/w/1", True),
            ("/w/3", False),
        ]
    await other.close()


async def test_a_watch_that_a_compaction_has_overtaken_lists_again(client: EtcdClient, etcd: EtcdProcess) -> None:
    proxy = AnswerEater(etcd.endpoint)
    port = await proxy.start()
    watcher = EtcdClient([f"127.0.0.1:{port}"], monotonic_ms)
    async with aclosing(watcher.watch("/w/")) as changes:
        assert isinstance(await anext(changes), Snapshot)
        await client.txn(put("/w/1"))
        assert isinstance(await anext(changes), WatchBatch)
        await proxy.stop()
        await client.txn(put("/w/2"))
        last = await client.txn(Txn((), (Delete("/w/1"),)))
        await client.compact(last.revision)
        await proxy.start(port)
        snapshot = await anext(changes)
        assert isinstance(snapshot, Snapshot)
        assert [each.key for each in snapshot.key_values] == ["/w/2"]
        await client.txn(put("/w/3"))
        assert [event.key_value.key for event in (await next_batch(changes)).events] == ["/w/3"]
    await watcher.close()
    await proxy.stop()


async def test_a_watch_of_an_etcd_that_begins_from_nothing_lists_again(
    client: EtcdClient, etcd: EtcdProcess, tmp_path: Path
) -> None:
    """Its revision is an earlier one, as that of a member that lags; and no member has a later one."""
    for number in range(5):
        await client.txn(put(f"/w/{number}"))
    async with aclosing(client.watch("/w/")) as changes:
        assert len((await anext(changes)).key_values) == 5  # type: ignore[union-attr]
        etcd.kill()
        rmtree(tmp_path / "etcd")
        etcd.start()
        assert (await anext(changes)).key_values == ()  # type: ignore[union-attr]
        await client.txn(put("/w/new"))
        assert [event.key_value.key for event in (await next_batch(changes)).events] == ["/w/new"]


async def test_a_lease_that_is_not_renewed_ends_and_takes_its_keys_in_one_revision(client: EtcdClient) -> None:
    lease = await client.grant(1000)
    await client.txn(Txn((), (Put("/a", b"", lease.lease_id), Put("/b", b"", lease.lease_id))))
    async with aclosing(client.watch("/")) as changes:
        assert len((await anext(changes)).key_values) == 2  # type: ignore[union-attr]
        batch = await next_batch(changes)
    # By the local clock it had ended before etcd said so.
    assert not lease.alive(monotonic_ms())
    assert sorted((event.key_value.key, event.deleted) for event in batch.events) == [("/a", True), ("/b", True)]
    async with aclosing(client.renewals(lease)) as renewals:
        assert [renewal async for renewal in renewals] == []


async def test_renewals_move_the_local_deadline_to_ttl_after_they_were_sent(etcd: EtcdProcess) -> None:
    now_ms = 1000
    client = EtcdClient([etcd.endpoint], lambda: now_ms)
    lease = await client.grant(2000)
    assert lease.deadline_ms == 3000
    now_ms = 2500
    async with aclosing(client.renewals(lease)) as renewals:
        await anext(renewals)
    assert lease.deadline_ms == 4500
    assert lease.alive(4499)
    assert not lease.alive(4500)
    await client.close()


async def test_a_lease_outlives_a_restart_of_etcd_that_is_shorter(client: EtcdClient, etcd: EtcdProcess) -> None:
    lease = await client.grant(6000)
    await client.txn(put("/a", lease=lease.lease_id))
    async with aclosing(client.renewals(lease)) as renewals:
        await anext(renewals)
        etcd.kill()
        etcd.start()
        await anext(renewals)
        await anext(renewals)
    assert lease.alive(monotonic_ms())
    assert await client.get("/a") is not None


async def test_a_revoked_lease_ends_its_renewals(client: EtcdClient) -> None:
    lease = await client.grant(2000)
    async with aclosing(client.renewals(lease)) as renewals:
        await anext(renewals)
        await client.revoke(lease.lease_id)
        # Twice is fine.
        await client.revoke(lease.lease_id)
        assert [renewal async for renewal in renewals] == []
    assert await client.time_to_live_ms(lease.lease_id) < 0


async def test_reads_fail_over_to_an_endpoint_that_answers(etcd: EtcdProcess) -> None:
    client = EtcdClient([f"127.0.0.1:{free_port()}", f"http://{etcd.endpoint}"], monotonic_ms)
    assert await client.get("/a") is None
    assert (await client.txn(put("/a"))).succeeded
    await client.close()


async def test_reads_say_so_when_no_answer_comes_in_time() -> None:
    client = EtcdClient([f"127.0.0.1:{free_port()}"], monotonic_ms)
    with pytest.raises(EtcdUnavailable, match="within 200 ms"):
        await client.get("/a", timeout_ms=200)
    await client.close()


class AnswerEater:
    """A TCP proxy that passes on what the client says and, while `eating`, nothing of what etcd answers."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.partition(":")
        self.eating = False
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Also cuts what is connected."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        etcd_reader, etcd_writer = await asyncio.open_connection(self._host, int(self._port))
        self._writers += [writer, etcd_writer]
        await asyncio.gather(
            self._pump(reader, etcd_writer, eatable=False), self._pump(etcd_reader, writer, eatable=True)
        )

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, eatable: bool) -> None:
        try:
            while data := await reader.read(65536):
                if not (eatable and self.eating):
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
