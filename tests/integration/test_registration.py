"""Registrations against a real etcd: restarts, second processes, lost leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from barnabas.cluster.keys import (
    ControllerRegistration,
    Keys,
    LogstoreRegistration,
    PurgatoryRegistration,
    Role,
    decode_registration,
)
from barnabas.ports.etcd import EtcdRefused, Put, Txn
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas.runtime.registration import IdentityTaken, Registration, refuses_connections
from tests.integration.etcd_process import EtcdProcess, needs_etcd
from tests.integration.reserved_ports import free_port

pytestmark = [pytest.mark.integration, needs_etcd, pytest.mark.deep]

KEYS = Keys()
LOGSTORE_KEY = KEYS.registration(Role.LOGSTORE, "1")


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path)
    process.start()
    yield process
    process.kill()


@pytest.fixture
async def client(etcd: EtcdProcess) -> AsyncIterator[EtcdClient]:
    client = EtcdClient([etcd.endpoint], monotonic_ms)
    yield client
    await client.close()


Listen = Callable[[], Awaitable[str]]


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    """Opens a listener that accepts and says nothing; gives its address."""
    servers: list[asyncio.Server] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def start() -> str:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


def logstore(
    client: EtcdClient, directory_id: str, address: str, on_registered: Callable[[int], None] = lambda epoch: None
) -> Registration:
    return Registration(
        client,
        KEYS,
        Role.LOGSTORE,
        "1",
        describe=lambda incarnation: LogstoreRegistration(1, incarnation, directory_id, address, address),
        ttl_ms=2000,
        on_registered=on_registered,
    )


def controller(client: EtcdClient, address: str) -> Registration:
    return Registration(
        client,
        KEYS,
        Role.CONTROLLER,
        "controller-0",
        describe=lambda incarnation: ControllerRegistration("controller-0", incarnation, address),
        ttl_ms=2000,
    )


async def put_election(client: EtcdClient, lease: int) -> None:
    await client.txn(Txn((), (Put(KEYS.election, b"{}", lease),)))


async def registered(client: EtcdClient) -> LogstoreRegistration:
    found = await client.get(LOGSTORE_KEY)
    assert found is not None
    record = decode_registration(Role.LOGSTORE, found.value)
    assert isinstance(record, LogstoreRegistration)
    return record


async def test_the_broker_epoch_is_the_create_revision(client: EtcdClient, listen: Listen) -> None:
    registration = logstore(client, "directory", await listen())
    epoch = await registration.start()
    found = await client.get(LOGSTORE_KEY)
    assert found is not None
    assert found.create_revision == epoch == registration.epoch
    assert registration.lease is not None
    assert found.lease == registration.lease.lease_id


async def test_a_restart_of_the_same_directory_takes_over_at_once_under_a_new_epoch(
    client: EtcdClient, listen: Listen
) -> None:
    """The old process cannot live: this one holds the directory's lock. What still accepts at its port is another."""
    first = await logstore(client, "directory", await listen()).start()
    again = logstore(client, "directory", await listen())
    assert await again.start() > first
    assert again.lease is not None
    assert again.lease.alive(monotonic_ms())


async def test_another_directory_waits_for_the_lease_of_a_process_that_may_live(
    client: EtcdClient, listen: Listen
) -> None:
    first = logstore(client, "directory", await listen())
    await first.start()
    assert first.lease is not None
    address = await listen()
    await logstore(client, "another directory", address).start()
    assert not first.lease.alive(monotonic_ms())
    assert (await registered(client)).data_address == address


async def test_a_second_process_is_refused_while_the_first_renews(client: EtcdClient, listen: Listen) -> None:
    address = await listen()
    first = logstore(client, "directory", address)
    await first.start()
    running = asyncio.create_task(first.run())
    with pytest.raises(IdentityTaken) as taken:
        await logstore(client, "another directory", await listen()).start()
    assert str(taken.value) == (f"logstore 1 is already running at {address}: stop it, or give this one another id")
    assert (await registered(client)).data_address == address
    running.cancel()


async def test_a_process_whose_addresses_refuse_is_gone(client: EtcdClient, listen: Listen) -> None:
    first = await logstore(client, "directory", f"127.0.0.1:{free_port()}").start()
    second = logstore(client, "another directory", await listen())
    assert await second.start() > first


async def test_a_stateless_process_that_listens_where_the_old_one_did_replaces_it(
    client: EtcdClient, listen: Listen
) -> None:
    address = await listen()
    epochs = [
        await Registration(
            client,
            KEYS,
            Role.PURGATORY,
            "purgatory-0",
            describe=lambda incarnation: PurgatoryRegistration("purgatory-0", incarnation, address),
        ).start()
        for _ in range(2)
    ]
    assert epochs[1] > epochs[0]


async def test_a_restarted_controller_does_not_wait_for_the_election_of_its_dead_incarnation(
    client: EtcdClient, listen: Listen
) -> None:
    """Nor can a claim of the dead one that is under way put the key back: its lease is gone too."""
    address = await listen()
    dead = controller(client, address)
    await dead.start()
    assert dead.lease is not None
    await put_election(client, dead.lease.lease_id)
    await controller(client, address).start()
    assert await client.get(KEYS.election) is None
    assert await client.time_to_live_ms(dead.lease.lease_id) < 0
    with pytest.raises(EtcdRefused):
        await put_election(client, dead.lease.lease_id)


async def test_a_restarted_controller_leaves_the_election_of_another_one(client: EtcdClient, listen: Listen) -> None:
    address = await listen()
    await controller(client, address).start()
    other = await client.grant(60_000)
    await put_election(client, other.lease_id)
    await controller(client, address).start()
    elected = await client.get(KEYS.election)
    assert elected is not None
    assert elected.lease == other.lease_id


async def test_a_second_controller_does_not_take_the_election_of_a_living_one(
    client: EtcdClient, listen: Listen
) -> None:
    first = controller(client, await listen())
    await first.start()
    assert first.lease is not None
    await put_election(client, first.lease.lease_id)
    running = asyncio.create_task(first.run())
    with pytest.raises(IdentityTaken):
        await controller(client, await listen()).start()
    elected = await client.get(KEYS.election)
    assert elected is not None
    assert elected.lease == first.lease.lease_id
    running.cancel()


async def test_a_lost_lease_registers_another_incarnation(client: EtcdClient, listen: Listen) -> None:
    epochs: asyncio.Queue[int] = asyncio.Queue()
    registration = logstore(client, "directory", await listen(), epochs.put_nowait)
    await registration.start()
    running = asyncio.create_task(registration.run())
    first, before = await epochs.get(), await registered(client)
    assert registration.lease is not None
    await client.revoke(registration.lease.lease_id)
    assert await epochs.get() > first
    assert (await registered(client)).incarnation != before.incarnation
    running.cancel()


async def test_an_update_changes_what_is_said_and_neither_epoch_nor_lease(client: EtcdClient, listen: Listen) -> None:
    offline: dict[str, str] = {}
    address = await listen()
    registration = Registration(
        client,
        KEYS,
        Role.LOGSTORE,
        "1",
        describe=lambda incarnation: LogstoreRegistration(
            1, incarnation, "directory", address, address, offline_log_dirs=dict(offline)
        ),
        ttl_ms=60_000,
    )
    epoch = await registration.start()
    before = await client.get(LOGSTORE_KEY)
    offline["/b"] = "EIO"
    await registration.update()
    after = await client.get(LOGSTORE_KEY)
    assert before is not None
    assert after is not None
    assert (after.create_revision, after.lease) == (epoch, before.lease)
    assert (await registered(client)).offline_log_dirs == {"/b": "EIO"}
    await registration.update()
    assert await client.get(LOGSTORE_KEY) == after, "nothing new, nothing written"


async def test_an_update_waits_for_the_registration_after_a_lost_lease(client: EtcdClient, listen: Listen) -> None:
    registration = logstore(client, "directory", await listen())
    await registration.start()
    assert registration.lease is not None
    await client.revoke(registration.lease.lease_id)
    updating = asyncio.create_task(registration.update())
    running = asyncio.create_task(registration.run())
    await updating
    assert (await registered(client)).directory_id == "directory"
    running.cancel()


async def test_a_registration_survives_a_short_outage_of_etcd(
    client: EtcdClient, listen: Listen, etcd: EtcdProcess
) -> None:
    renewed: asyncio.Queue[int] = asyncio.Queue()
    registration = logstore(client, "directory", await listen())
    registration._on_renewed = lambda lease: renewed.put_nowait(lease.deadline_ms)
    epoch = await registration.start()
    running = asyncio.create_task(registration.run())
    await renewed.get()
    etcd.kill()
    etcd.start()
    while not renewed.empty():
        renewed.get_nowait()
    await renewed.get()
    assert registration.epoch == epoch
    running.cancel()


async def test_a_graceful_stop_leaves_at_once(client: EtcdClient, listen: Listen) -> None:
    registration = logstore(client, "directory", await listen())
    await registration.start()
    await registration.stop()
    assert await client.get(LOGSTORE_KEY) is None


async def test_only_a_refusal_proves_that_no_process_listens(listen: Listen) -> None:
    assert await refuses_connections(f"127.0.0.1:{free_port()}")
    assert not await refuses_connections(await listen())
    assert not await refuses_connections("nowhere.invalid:1")
