"""What proves that a process is dead, and what may be taken away with it."""

from __future__ import annotations

from barnabas.cluster.keys import ControllerRegistration, Keys, LogstoreRegistration
from barnabas.ports.etcd import Delete, KeyValue, Txn, modified_at
from barnabas.runtime.takeover import addresses_to_probe, removal

KEYS = Keys()
FOUND = KeyValue("/barnabas/controllers/a", b"", 10, 12, lease=7)


def election(lease: int) -> KeyValue:
    return KeyValue(KEYS.election, b"", 11, 11, lease)


def logstore(directory_id: str, data_address: str) -> LogstoreRegistration:
    return LogstoreRegistration(1, "incarnation", directory_id, data_address, "host:2")


def controller(address: str, metrics_address: str = "") -> ControllerRegistration:
    return ControllerRegistration("a", "incarnation", address, metrics_address)


def test_the_locked_directories_of_a_logstore_are_proof_wherever_it_listened() -> None:
    assert not addresses_to_probe(logstore("directory", "old:1"), logstore("directory", "new:1"))


def test_another_directory_is_none() -> None:
    assert addresses_to_probe(logstore("directory", "old:1"), logstore("another", "new:1")) == {"old:1"}


def test_an_address_that_is_the_new_process_s_own_is_not_probed() -> None:
    assert not addresses_to_probe(controller("host:1"), controller("host:1"))


def test_every_other_address_has_to_refuse() -> None:
    """A twin at another address may live: one listener of its own in common with the new process is no proof."""
    assert addresses_to_probe(controller("old:1", "host:9"), controller("new:1", "host:9")) == {"old:1"}


def test_the_election_goes_with_the_registration_of_the_same_lease() -> None:
    assert removal(KEYS, FOUND, election(lease=7)) == Txn(
        (modified_at(FOUND.key, 12), modified_at(KEYS.election, 11)), (Delete(FOUND.key), Delete(KEYS.election))
    )


def test_the_election_of_another_controller_stays() -> None:
    alone = Txn((modified_at(FOUND.key, 12),), (Delete(FOUND.key),))
    assert removal(KEYS, FOUND, election(lease=8)) == alone
    assert removal(KEYS, FOUND, None) == alone
