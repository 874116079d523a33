"""A cluster says in which format its state is, and no controller touches what it does not know."""

from __future__ import annotations

from barnabas.cluster.cluster_version import FORMAT, READERS_MIN, VersionRecord
from barnabas.cluster.keys import encode_record
from barnabas.ports.etcd import Delete, Put, Txn, absent
from tests.unit.controller.cluster import KEYS, LEASE_MS, Cluster


def put_version(cluster: Cluster, record: VersionRecord) -> None:
    cluster.etcd.txn(Txn((), (Put(KEYS.version, encode_record(record)),)))


def test_the_first_controller_writes_the_version() -> None:
    cluster = Cluster()
    controller = cluster.controller("controller-0")
    cluster.settle()
    assert controller.core.image.version is not None
    assert (controller.core.image.version.format, controller.core.image.version.readers_min) == (FORMAT, READERS_MIN)


def test_an_older_format_is_raised_and_a_newer_one_left_alone() -> None:
    for before, after in ((0, FORMAT), (FORMAT + 3, FORMAT + 3)):
        cluster = Cluster()
        put_version(cluster, VersionRecord(before, 0, "0.0.1"))
        controller = cluster.controller("controller-0")
        cluster.settle()
        assert controller.is_active()
        assert controller.core.image.version is not None
        assert controller.core.image.version.format == after


def test_an_old_controller_does_not_claim_what_a_newer_version_has_written() -> None:
    cluster = Cluster()
    put_version(cluster, VersionRecord(FORMAT + 1, FORMAT + 1, "0.9.0"))
    controller = cluster.controller("controller-0")
    cluster.advance(2 * LEASE_MS)
    assert not controller.is_active()
    assert not controller.submitted, "it has written nothing"


def test_no_controller_founds_a_cluster_in_the_midst_of_a_restore() -> None:
    cluster = Cluster()
    put_version(cluster, VersionRecord(FORMAT, READERS_MIN, "0.2.0", restoring=True))
    controller = cluster.controller("controller-0")
    cluster.advance(LEASE_MS)
    assert not controller.is_active()
    put_version(cluster, VersionRecord(FORMAT, READERS_MIN, "0.2.0"))
    cluster.advance(LEASE_MS)
    assert controller.is_active()


def test_a_standby_that_is_too_old_stays_one_when_the_newer_controller_dies() -> None:
    cluster = Cluster()
    newer = cluster.controller("controller-0")
    old = cluster.controller("controller-1")
    cluster.settle()
    assert newer.is_active()
    put_version(cluster, VersionRecord(FORMAT + 1, FORMAT + 1, "0.9.0"))
    cluster.settle()
    newer.cut_off = True
    cluster.advance(2 * LEASE_MS)
    assert not old.is_active()


def test_a_version_that_is_taken_away_is_written_again() -> None:
    cluster = Cluster()
    controller = cluster.controller("controller-0")
    cluster.settle()
    cluster.etcd.txn(Txn((), (Delete(KEYS.version),)))
    cluster.settle()
    assert controller.core.image.version is not None


def test_a_claim_that_a_restore_overtakes_fails() -> None:
    """The controller had looked before; of an empty etcd nothing else in its claim would tell."""
    cluster = Cluster()
    controller = cluster.controller("controller-0")
    while not controller.txns:
        assert controller.step()
    put_version(cluster, VersionRecord(FORMAT, READERS_MIN, "0.2.0", restoring=True))
    cluster.advance(LEASE_MS)
    assert not controller.is_active()
    assert cluster.etcd.txn(Txn((absent(KEYS.election), absent(KEYS.cluster)), ())).succeeded
