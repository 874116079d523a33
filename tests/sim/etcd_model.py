"""EtcdModel: etcd in memory and virtual time, as far as Barnabas uses it. A differential test holds it against a real
one (tests/integration/test_etcd_model.py).

It speaks the values of `barnabas.ports.etcd` and is synchronous: what is slow or reordered on the way to it is the
caller's network to play. `fate` decides about each Txn: answered, applied unanswered, or lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from barnabas.ports.etcd import (
    NO_LEASE,
    AmbiguousResult,
    Compare,
    CompareTarget,
    Delete,
    EtcdRefused,
    Get,
    KeyValue,
    Operation,
    Put,
    Snapshot,
    Txn,
    TxnResult,
    WatchBatch,
    WatchEvent,
    prefix_end,
)

# etcd grants no shorter lease than one and a half of its election timeout (1 s by default), in whole seconds.
TTL_MS_MIN = 2_000


class Fate(Enum):
    """What becomes of a Txn."""

    ANSWERED = "answered"
    # Applied, but the answer is lost.
    APPLIED_UNANSWERED = "applied, unanswered"
    # Never arrives.
    LOST = "lost"


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    deadline_ms: int
    keys: dict[str, None] = field(default_factory=dict)


class ModelWatch:
    """A watch of a prefix: `take` gives what has happened since, in batches as etcd sends them, one per revision."""

    def __init__(self, model: EtcdModel, prefix: str, after_revision: int | None) -> None:
        self._model = model
        self._prefix = prefix
        self._revision = after_revision

    @property
    def is_behind(self) -> bool:
        """Whether `take` has anything to tell, if only that nothing happened under the prefix."""
        return self._revision is None or self._revision < self._model.revision

    def take(self) -> list[Snapshot | WatchBatch]:
        """First a Snapshot; after a compaction that went past this watch a Snapshot again."""
        model = self._model
        changes: list[Snapshot | WatchBatch] = []
        if self._revision is None or self._revision + 1 < model.compacted_revision:
            changes.append(Snapshot(model.revision, model.get(Get(self._prefix, prefix_end(self._prefix)))))
        else:
            for revision in range(self._revision + 1, model.revision + 1):
                events = tuple(
                    event for event in model.history(revision) if event.key_value.key.startswith(self._prefix)
                )
                if events:
                    changes.append(WatchBatch(revision, events))
        # One that begins in the future waits for it.
        self._revision = max(model.revision, -1 if self._revision is None else self._revision)
        return changes


class EtcdModel:
    def __init__(self, fate: Callable[[Txn], Fate] = lambda txn: Fate.ANSWERED) -> None:
        self.revision = 1
        # Watches cannot begin before it.
        self.compacted_revision = 0
        self._fate = fate
        self._now_ms = 0
        self._keys: dict[str, KeyValue] = {}
        self._history: dict[int, list[WatchEvent]] = {}
        self._leases: dict[int, _Lease] = {}
        self._last_lease = 0

    def watch(self, prefix: str, after_revision: int | None = None) -> ModelWatch:
        """From everything there is on (a Snapshot first), or from the revision after `after_revision` on."""
        return ModelWatch(self, prefix, after_revision)

    def history(self, revision: int) -> list[WatchEvent]:
        return self._history.get(revision, [])

    def get(self, operation: Get) -> tuple[KeyValue, ...]:
        if not operation.range_end:
            found = self._keys.get(operation.key)
            return (found,) if found is not None else ()
        return tuple(self._keys[key] for key in self._range(operation.key, operation.range_end))

    def txn(self, txn: Txn) -> TxnResult:
        """Raises AmbiguousResult by fate, EtcdRefused where etcd would refuse it."""
        match self._fate(txn):
            case Fate.LOST:
                raise AmbiguousResult("the request is lost")
            case Fate.APPLIED_UNANSWERED:
                self._apply(txn)
                raise AmbiguousResult("the answer is lost")
            case Fate.ANSWERED:
                return self._apply(txn)

    def grant(self, ttl_ms: int) -> int:
        """A new lease; its TTL may be longer than what is asked for."""
        ttl_ms = max(ttl_ms, TTL_MS_MIN)
        self._last_lease += 1
        self._leases[self._last_lease] = _Lease(ttl_ms, self._now_ms + ttl_ms)
        return self._last_lease

    def keep_alive(self, lease: int) -> int:
        """The TTL in ms that it lives from now; 0 when it is gone."""
        found = self._leases.get(lease)
        if found is None:
            return 0
        found.deadline_ms = self._now_ms + found.ttl_ms
        return found.ttl_ms

    def time_to_live_ms(self, lease: int) -> int:
        """Negative when it is gone."""
        found = self._leases.get(lease)
        return -1000 if found is None else found.deadline_ms - self._now_ms

    def revoke(self, lease: int) -> bool:
        """All keys under the lease go in one revision; False for a lease that is gone already."""
        found = self._leases.pop(lease, None)
        if found is not None and found.keys:
            self.revision += 1
            for key in sorted(found.keys):
                self._delete_key(key)
        return found is not None

    def advance(self, now_ms: int) -> None:
        """Virtual time passes; leases end."""
        assert now_ms >= self._now_ms
        self._now_ms = now_ms
        for lease in [each for each, found in self._leases.items() if found.deadline_ms <= now_ms]:
            self.revoke(lease)

    def renew_all(self, now_ms: int) -> None:
        """As a new leader does, which can't know who has renewed what; no lease ends while there is none."""
        self._now_ms = max(now_ms, self._now_ms)
        for lease in self._leases.values():
            lease.deadline_ms = self._now_ms + lease.ttl_ms

    def next_expiry_ms(self) -> int | None:
        """When the next lease ends, if it is not renewed."""
        return min((each.deadline_ms for each in self._leases.values()), default=None)

    def compact(self, revision: int) -> None:
        """Raises EtcdRefused for a revision that is compacted already or not there yet."""
        if revision <= self.compacted_revision:
            raise EtcdRefused("etcdserver: mvcc: required revision has been compacted")
        if revision > self.revision:
            raise EtcdRefused("etcdserver: mvcc: required revision is a future revision")
        for forgotten in range(self.compacted_revision, revision):
            self._history.pop(forgotten, None)
        self.compacted_revision = revision

    def _range(self, key: str, range_end: str) -> list[str]:
        return sorted(each for each in self._keys if key <= each < range_end)

    def _apply(self, txn: Txn) -> TxnResult:
        succeeded = all(self._holds(compare) for compare in txn.compares)
        operations = txn.success if succeeded else txn.failure
        self._check(txn)
        before = self.revision
        reads = tuple(self._operate(operation, before) for operation in operations)
        return TxnResult(succeeded, self.revision, reads)

    def _holds(self, compare: Compare) -> bool:
        found = self._keys.get(compare.key)
        if found is None:
            return compare.revision == 0
        match compare.target:
            case CompareTarget.CREATE_REVISION:
                return found.create_revision == compare.revision
            case CompareTarget.MOD_REVISION:
                return found.mod_revision == compare.revision

    def _check(self, txn: Txn) -> None:
        if max(len(txn.compares), len(txn.success), len(txn.failure)) > 128:
            raise EtcdRefused("etcdserver: too many operations in txn request")
        for operations in (txn.success, txn.failure):
            puts = [operation.key for operation in operations if isinstance(operation, Put)]
            deletes = [operation for operation in operations if isinstance(operation, Delete)]
            if len(set(puts)) < len(puts) or any(_covers(delete, key) for delete in deletes for key in puts):
                raise EtcdRefused("etcdserver: duplicate key given in txn request")
        taken = txn.success if all(self._holds(compare) for compare in txn.compares) else txn.failure
        for operation in taken:
            if isinstance(operation, Put) and operation.lease != NO_LEASE and operation.lease not in self._leases:
                raise EtcdRefused("etcdserver: requested lease not found")

    def _operate(self, operation: Operation, before: int) -> tuple[KeyValue, ...]:
        """All operations of a Txn make one revision, the one after `before`."""
        match operation:
            case Get():
                return self.get(operation)
            case Put():
                self.revision = before + 1
                self._put_key(operation)
                return ()
            case Delete():
                keys = (
                    self._range(operation.key, operation.range_end)
                    if operation.range_end
                    else [operation.key] * (operation.key in self._keys)
                )
                for key in keys:
                    self.revision = before + 1
                    self._delete_key(key)
                return ()

    def _put_key(self, put: Put) -> None:
        found = self._keys.get(put.key)
        if found is not None and found.lease != NO_LEASE:
            self._leases[found.lease].keys.pop(put.key)
        if put.lease != NO_LEASE:
            self._leases[put.lease].keys[put.key] = None
        created = found.create_revision if found is not None else self.revision
        key_value = KeyValue(put.key, put.value, created, self.revision, put.lease)
        self._keys[put.key] = key_value
        self._history.setdefault(self.revision, []).append(WatchEvent(key_value))

    def _delete_key(self, key: str) -> None:
        found = self._keys.pop(key)
        if found.lease in self._leases:
            self._leases[found.lease].keys.pop(key, None)
        tombstone = KeyValue(key, b"", 0, self.revision)
        self._history.setdefault(self.revision, []).append(WatchEvent(tombstone, deleted=True))


def _covers(delete: Delete, key: str) -> bool:
    return delete.key <= key < delete.range_end if delete.range_end else delete.key == key
