"""Registering by the version that was looked at."""

from __future__ import annotations

from typing import cast

import pytest

from barnabas.cluster.cluster_version import FORMAT, READERS_MIN, VersionRecord
from barnabas.cluster.keys import GatewayRegistration, Keys, Role, encode_record
from barnabas.ports.etcd import KeyValue, Txn, TxnResult, modified_at
from barnabas.runtime.cluster_version import VersionRefused
from barnabas.runtime.etcd import EtcdClient, Lease
from barnabas.runtime.registration import Registration

KEYS = Keys("/a/")


class RestoredMeanwhile:
    """An etcd in which a restore begins between a look at the version and the registration."""

    def __init__(self) -> None:
        self.version: KeyValue | None = None
        self.txns: list[Txn] = []

    async def get(self, key: str) -> KeyValue | None:
        return self.version if key == KEYS.version else None

    async def grant(self, ttl_ms: int) -> Lease:
        restoring = VersionRecord(FORMAT, READERS_MIN, "0", restoring=True)
        self.version = KeyValue(KEYS.version, encode_record(restoring), 7, 7)
        return cast("Lease", type("Granted", (), {"lease_id": 5}))

    async def txn(self, txn: Txn) -> TxnResult:
        self.txns.append(txn)
        return TxnResult(succeeded=False, revision=7, reads=())


async def test_no_process_registers_where_a_restore_has_begun_since_the_version_was_looked_at() -> None:
    etcd = RestoredMeanwhile()
    registration = Registration(
        cast("EtcdClient", etcd),
        KEYS,
        Role.GATEWAY,
        "gateway-0",
        describe=lambda incarnation: GatewayRegistration("gateway-0", incarnation, {}),
    )
    with pytest.raises(VersionRefused, match="restor"):
        await registration.start()
    (txn,) = etcd.txns
    assert modified_at(KEYS.version, 0) in txn.compares
