"""When a registration may be removed although its process has not, and what is deleted with it.

A lease is not a lock, and its end need not be awaited if its holder is certainly dead. This is proved by:

- A logstore's directory id. The process that registers with it holds the lock (flock) on the log directories, which
  the kernel takes from a process when that ends, and from no other process.
- Its addresses. A listener is bound before its process registers, and one port has one listener: an address that is the
  new process's own by now is the old one's no longer. That covers a restart on the same host, and a pod that comes back
  under its name.
- A refused connection, at every other address: the host is there and no process listens.

A process that may be alive is left to its lease. An error here would cost availability and no record: the fences are
the controller epoch, the broker epochs and the compares of every Txn. This module is pure;
`barnabas.runtime.registration` and the simulation probe and wait.
"""

from __future__ import annotations

from barnabas.cluster.keys import Keys, LogstoreRegistration, Registration, registration_addresses
from barnabas.ports.etcd import Compare, Delete, KeyValue, Txn, modified_at


def addresses_to_probe(old: Registration, new: Registration) -> frozenset[str]:
    """Return the addresses ("host:port") of `old` which must all refuse connections before its process is certainly
    dead.

    Empty: it is dead, because `new` is registered by the process that has its directories or all its addresses.
    """
    match old, new:
        case LogstoreRegistration(), LogstoreRegistration() if old.directory_id == new.directory_id:
            return frozenset()
    return frozenset(registration_addresses(old).values()) - frozenset(registration_addresses(new).values())


def removal(keys: Keys, found: KeyValue, election: KeyValue | None) -> Txn:
    """Return the Txn that deletes the registration `found` of a dead process and, if its lease holds that too, the
    election key.

    `election` is the election key as it was read after `found`. The Txn changes nothing if either has changed by now: a
    process that has registered or was elected since is not the dead one.
    """
    compares: tuple[Compare, ...] = (modified_at(found.key, found.mod_revision),)
    deletes: tuple[Delete, ...] = (Delete(found.key),)
    if election is not None and election.lease == found.lease:
        compares += (modified_at(keys.election, election.mod_revision),)
        deletes += (Delete(keys.election),)
    return Txn(compares, deletes)
