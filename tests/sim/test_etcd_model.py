"""What the model of etcd has beside etcd: virtual time, and fates of Txns. The rest is held against a real one
(tests/integration/test_etcd_model.py)."""

from __future__ import annotations

import pytest

from barnabas.ports.etcd import AmbiguousResult, Get, KeyValue, Put, Snapshot, Txn, WatchBatch, WatchEvent
from tests.sim.etcd_model import EtcdModel, Fate


def put(key: str, lease: int = 0) -> Txn:
    return Txn((), (Put(key, b"", lease),))


def test_the_models_leases_end_in_virtual_time() -> None:
    model = EtcdModel()
    watch = model.watch("/")
    lease = model.grant(2000)
    model.txn(put("/a", lease=lease))
    watch.take()
    model.advance(1999)
    assert model.keep_alive(lease) == 2000
    model.advance(3998)
    assert watch.take() == []
    assert model.next_expiry_ms() == 3999
    model.advance(3999)
    (batch,) = watch.take()
    assert isinstance(batch, WatchBatch)
    assert batch.events == (WatchEvent(KeyValue("/a", b"", 0, model.revision), deleted=True),)
    assert model.keep_alive(lease) == 0


def test_the_models_ambiguous_txns_are_applied_or_lost() -> None:
    fates = iter([Fate.LOST, Fate.APPLIED_UNANSWERED])
    model = EtcdModel(lambda txn: next(fates))
    with pytest.raises(AmbiguousResult):
        model.txn(put("/a"))
    assert model.get(Get("/a")) == ()
    with pytest.raises(AmbiguousResult):
        model.txn(put("/a"))
    assert len(model.get(Get("/a"))) == 1


def test_the_models_watch_lists_again_after_a_compaction_that_overtook_it() -> None:
    model = EtcdModel()
    watch = model.watch("/")
    watch.take()
    model.txn(put("/a"))
    model.txn(put("/a"))
    model.txn(put("/b"))
    model.compact(model.revision)
    (snapshot,) = watch.take()
    assert isinstance(snapshot, Snapshot)
    assert [each.key for each in snapshot.key_values] == ["/a", "/b"]
