"""A process's place in the cluster: `barnabas.runtime.registration.Registration` here, with the same order of steps.

Put if absent, under a lease that is renewed. What the process before has left is taken away first, where that process
is certainly dead (`barnabas.runtime.takeover`). Otherwise its lease is waited for, and a process whose id stays taken
ends.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.cluster.keys import Registration, Role, decode_registration, encode_registration
from barnabas.ports.etcd import KeyValue, Put, Txn, TxnResult, absent, modified_at
from barnabas.runtime import takeover
from tests.sim.nodes.etcd import EtcdClient
from tests.sim.scheduler import MS

TTL_MS = 6_000
OUTLIVE_MS_MAX = TTL_MS + 3_000
POLL_US = 200 * MS


class Registrar:
    """`describe` makes the record of an incarnation; the callbacks are those of the real one.

    `on_renewed(lease, deadline_ms)` counts the deadline from when the renewal was sent.
    """

    def __init__(
        self,
        etcd: EtcdClient,
        role: Role,
        member_id: str,
        describe: Callable[[str], Registration],
        on_registered: Callable[[int], None] = lambda epoch: None,
        on_renewed: Callable[[int, int], None] = lambda lease, deadline_ms: None,
    ) -> None:
        self._etcd = etcd
        self._process = etcd.process
        self._role = role
        self._key = etcd.keys.registration(role, member_id)
        self._describe = describe
        self._on_registered = on_registered
        self._on_renewed = on_renewed
        self._lease = 0
        self._is_updating = False
        self._register()

    def _register(self) -> None:
        """As another incarnation each time."""
        self._incarnation = self._process.scheduler.random.randbytes(16).hex()
        self._value = encode_registration(self._describe(self._incarnation))
        self._try()

    def update(self) -> None:
        """`describe` has something new to say of this incarnation: until that is registered."""
        if not self._is_updating:
            self._is_updating = True
            self._look()

    def _look(self) -> None:
        self._etcd.get(self._key, self._say)

    def _look_again(self) -> None:
        self._process.after(POLL_US, "tries to say it again", self._look)

    def _say(self, result: TxnResult) -> None:
        found = result.reads[0][0] if result.reads[0] else None
        if found is None or found.lease != self._lease:
            self._look_again()
            return
        value = encode_registration(self._describe(self._incarnation))
        if found.value == value:
            self._is_updating = False
            return
        put = Txn((modified_at(self._key, found.mod_revision),), (Put(self._key, value, found.lease),))
        self._etcd.txn(put, lambda result: self._look(), self._look_again, lambda reason: self._look_again())

    def _try(self) -> None:
        self._etcd.get(self._key, self._make_room)

    def _try_again(self) -> None:
        self._process.after(POLL_US, "tries to register again", self._try)

    def _make_room(self, result: TxnResult) -> None:
        if not result.reads[0]:
            self._ask_for_lease()
            return
        found = result.reads[0][0]
        old = decode_registration(self._role, found.value)
        new = self._describe(self._incarnation)
        network = self._process.network
        if all(network.refuses(address) for address in takeover.addresses_to_probe(old, new)):
            self._look_for_election(found)
        else:
            self._outlive(found, self._process.now_ms + OUTLIVE_MS_MAX)

    def _look_for_election(self, found: KeyValue) -> None:
        if self._role is not Role.CONTROLLER:
            self._remove(found, None)
            return
        election = self._etcd.keys.election
        self._etcd.get(election, lambda result: self._remove(found, result.reads[0][0] if result.reads[0] else None))

    def _remove(self, found: KeyValue, election: KeyValue | None) -> None:
        def done(result: TxnResult) -> None:
            if result.succeeded:
                self._etcd.lease("revoke", found.lease, lambda gone: self._try())
            else:
                self._try()

        removal = takeover.removal(self._etcd.keys, found, election)
        self._etcd.txn(removal, done, self._try_again, lambda reason: self._try_again())

    def _outlive(self, found: KeyValue, deadline_ms: int) -> None:
        def look(result: TxnResult) -> None:
            if not result.reads[0] or result.reads[0][0].mod_revision != found.mod_revision:
                self._try()
            elif self._process.now_ms < deadline_ms:
                self._outlive(found, deadline_ms)
            else:
                self._process.kill()

        self._process.after(POLL_US, "looks whether its id is free", lambda: self._etcd.get(self._key, look))

    def _ask_for_lease(self) -> None:
        sent_ms = self._process.now_ms
        self._etcd.lease("grant", TTL_MS, lambda lease: self._put(lease, sent_ms + TTL_MS))

    def _put(self, lease: int, deadline_ms: int) -> None:
        self._lease = lease
        put = Txn((absent(self._key),), (Put(self._key, self._value, lease),))

        def done(result: TxnResult) -> None:
            if result.succeeded:
                self._registered(result.revision, deadline_ms)
            else:
                self._try_again()

        self._etcd.txn(put, done, lambda: self._read_back(deadline_ms), lambda reason: self._try_again())

    def _read_back(self, deadline_ms: int) -> None:
        """The answer was lost: only what is there tells."""

        def look(result: TxnResult) -> None:
            found = result.reads[0]
            if found and found[0].value == self._value:
                self._registered(found[0].create_revision, deadline_ms)
            else:
                self._try_again()

        self._etcd.get(self._key, look)

    def _registered(self, epoch: int, deadline_ms: int) -> None:
        self._on_registered(epoch)
        self._on_renewed(self._lease, deadline_ms)
        self._plan_renewal(self._lease)

    def _plan_renewal(self, lease: int) -> None:
        self._process.after(TTL_MS // 3 * MS, "renews its lease", lambda: self._renew(lease))

    def _renew(self, lease: int) -> None:
        sent_ms = self._process.now_ms

        def done(is_alive: int) -> None:
            if is_alive:
                self._on_renewed(lease, sent_ms + TTL_MS)
                self._plan_renewal(lease)
            else:
                self._register()

        self._etcd.lease("keep alive", lease, done)
