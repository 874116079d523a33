"""A process's registration in etcd, under a lease that it keeps alive.

The key is put if absent. One left behind by the previous process is removed first, but only if that process is
certainly dead (`barnabas.runtime.takeover`); with it the election key is removed, if a controller died active, and the
lease of both. Otherwise the lease decides; while that is renewed, the id is taken. Call `start` only after every
listener named in the registration is bound. A process does not register in a cluster whose state is of a version that
it does not support, or is being restored.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import aclosing

from barnabas.cluster.keys import (
    Keys,
    Role,
    decode_registration,
    encode_registration,
    registration_addresses,
)
from barnabas.cluster.keys import Registration as Record
from barnabas.metrics.etcd_families import LEASE_AGE, LEASE_TTL, REGISTRATIONS
from barnabas.metrics.family import Sample
from barnabas.ports.etcd import AmbiguousResult, EtcdRefused, KeyValue, Put, Txn, absent, modified_at
from barnabas.runtime import takeover
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.cluster_version import check_cluster_version
from barnabas.runtime.etcd import EtcdClient, EtcdUnavailable, Lease

_PROBE_S = 1.0
_POLL_S = 0.2
# Leases expire a little late: etcd revokes them twice a second, and reports the rest in whole seconds. On a busy
# machine 1.5 s were sometimes too few, and a process gave up an id that became free.
_LEASE_MARGIN_MS = 3000


class IdentityTaken(Exception):  # noqa: N818  (an outcome that ends the process with its one line)
    """Another live process holds this id."""


class Registration:
    """Registers one member and keeps it registered until `stop`.

    `describe` makes the record for a given incarnation, a name that no other life of a member has.
    `on_registered(epoch)` is called at every registration with the key's create revision (a logstore's broker epoch),
    `on_renewed(lease)` then and after every renewal.
    """

    def __init__(
        self,
        etcd: EtcdClient,
        keys: Keys,
        role: Role,
        member_id: str,
        describe: Callable[[str], Record],
        ttl_ms: int = 6000,
        on_registered: Callable[[int], None] = lambda epoch: None,
        on_renewed: Callable[[Lease], None] = lambda lease: None,
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._role = role
        self._member_id = member_id
        self._key = keys.registration(role, member_id)
        self._describe = describe
        self._ttl_ms = ttl_ms
        self._on_registered = on_registered
        self._on_renewed = on_renewed
        self._incarnation = ""
        self.lease: Lease | None = None
        self.epoch = -1
        self._registrations = 0

    @property
    def incarnation(self) -> str:
        """Return the name of this life of the member; empty before `start`."""
        return self._incarnation

    def samples(self) -> Iterator[Sample]:
        yield Sample(REGISTRATIONS, (), self._registrations)
        if self.lease is not None:
            renewed_ms = self.lease.deadline_ms - self.lease.ttl_ms
            yield Sample(LEASE_AGE, (), monotonic_ms() - renewed_ms)
            yield Sample(LEASE_TTL, (), self.lease.ttl_ms)

    async def start(self) -> int:
        """Register, waiting for etcd indefinitely; return the epoch. Raises IdentityTaken, VersionRefused."""
        self._incarnation = uuid.uuid4().hex
        record = self._describe(self._incarnation)
        while True:
            version_revision = await check_cluster_version(self._etcd, self._keys)
            try:
                await self._make_room(record)
                self.lease = await self._etcd.grant(self._ttl_ms)
                epoch = await self._put(record, self.lease, version_revision)
            except (AmbiguousResult, EtcdRefused, EtcdUnavailable):
                # In any case, the next round reads the present state.
                await asyncio.sleep(_POLL_S)
                continue
            if epoch is not None:
                self.epoch = epoch
                self._registrations += 1
                self._on_registered(epoch)
                self._on_renewed(self.lease)
                return epoch

    async def run(self) -> None:
        """Keep the lease alive; register again, as another incarnation, whenever it is lost. Raises IdentityTaken and
        VersionRefused.
        """
        while True:
            assert self.lease is not None, "start comes first"
            async with aclosing(self._etcd.renewals(self.lease)) as renewals:
                async for _ in renewals:
                    self._on_renewed(self.lease)
            await self.start()

    async def update(self) -> None:
        """`describe` has a new record for this incarnation: return once that is registered. The epoch stays."""
        while True:
            try:
                found = await self._etcd.get(self._key)
                if found is not None and self.lease is not None and found.lease == self.lease.lease_id:
                    value = encode_registration(self._describe(self._incarnation))
                    if found.value == value:
                        return
                    put = Put(self._key, value, found.lease)
                    await self._etcd.txn(Txn((modified_at(self._key, found.mod_revision),), (put,)))
                    continue
            except (AmbiguousResult, EtcdRefused, EtcdUnavailable):
                pass  # in any case, the next round reads the present state
            await asyncio.sleep(_POLL_S)

    async def stop(self) -> None:
        """Leave at once, instead of when the lease expires. `run` must have been cancelled."""
        if self.lease is None:
            return
        try:
            await self._etcd.revoke(self.lease.lease_id)
        except (EtcdUnavailable, EtcdRefused):
            return  # etcd can't be reached: the lease expires

    async def _put(self, record: Record, lease: Lease, version_revision: int) -> int | None:
        """Return the epoch of the registration, or None if the key exists already, or the version has been written
        since it was checked: for example by a restore, which must not be overtaken.
        """
        value = encode_registration(record)
        fence = (absent(self._key), modified_at(self._keys.version, version_revision))
        txn = Txn(fence, (Put(self._key, value, lease.lease_id),))
        try:
            result = await self._etcd.txn(txn)
        except AmbiguousResult:
            written = await self._etcd.get(self._key)
            return written.create_revision if written is not None and written.value == value else None
        return result.revision if result.succeeded else None

    async def _make_room(self, record: Record) -> None:
        """Return when the key is absent, or was at that moment."""
        while (found := await self._etcd.get(self._key)) is not None:
            old = decode_registration(self._role, found.value)
            if all([await refuses_connections(address) for address in takeover.addresses_to_probe(old, record)]):
                await self._remove(found)
            else:
                await self._outlive(found, old)

    async def _remove(self, found: KeyValue) -> None:
        """Remove what a dead process has left. An ambiguous Txn needs no read-back: the caller reads."""
        election = await self._etcd.get(self._keys.election) if self._role is Role.CONTROLLER else None
        removed = await self._etcd.txn(takeover.removal(self._keys, found, election))
        if removed.succeeded:
            # A claim of the dead process that is still in progress finds no lease to put the election key under.
            await self._etcd.revoke(found.lease)

    async def _outlive(self, found: KeyValue, old: Record) -> None:
        """Wait for the lease of another process's registration to end. Raises IdentityTaken when it is renewed."""
        remaining_ms = max(0, await self._etcd.time_to_live_ms(found.lease)) + _LEASE_MARGIN_MS
        for _ in range(int(remaining_ms / 1000 / _POLL_S)):
            await asyncio.sleep(_POLL_S)
            now = await self._etcd.get(self._key)
            if now is None or now.mod_revision != found.mod_revision:
                return
        where = ", ".join(sorted(set(registration_addresses(old).values())))
        raise IdentityTaken(
            f"{self._role.value} {self._member_id} is already running at {where}: stop it, or give this one another id"
        )


async def refuses_connections(address: str) -> bool:
    """Return True if the host is reachable and no process listens at "host:port"; False if that is not certain."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except ConnectionRefusedError:
        return True
    except OSError:  # unreachable, unknown, or too slow (TimeoutError is one): nothing is proved
        return False
    writer.close()
    return False
