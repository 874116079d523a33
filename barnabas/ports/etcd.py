"""etcd, as the cores see it: values for keys, transactions, leases and watches. No I/O.

`barnabas.runtime.etcd` sends them over gRPC; `tests/sim/etcd_model.py` implements them in memory. Keys are text, values
bytes. A revision counts changes of the whole store; a key that does not exist has revision 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

NO_LEASE = 0


class AmbiguousResult(Exception):  # noqa: N818  (an outcome, not a failure)
    """It is unknown whether a Txn was applied, because its answer was lost. Read back; never send it again without
    reading.
    """


class EtcdRefused(Exception):  # noqa: N818  (an outcome, not a failure)
    """etcd refused the request itself, which certainly changed nothing (an unknown lease, a full database)."""


class CompareTarget(Enum):
    CREATE_REVISION = "create_revision"
    MOD_REVISION = "mod_revision"


@dataclass(slots=True, frozen=True)
class Compare:
    """Holds if the key's revision of that kind equals `revision`; 0: if the key does not exist."""

    key: str
    target: CompareTarget
    revision: int


@dataclass(slots=True, frozen=True)
class Put:
    key: str
    value: bytes
    lease: int = NO_LEASE


@dataclass(slots=True, frozen=True)
class Delete:
    """Removes `key`, or with `range_end` every key from `key` up to it, itself excluded."""

    key: str
    range_end: str = ""


@dataclass(slots=True, frozen=True)
class Get:
    """Reads `key`, or with `range_end` every key from `key` up to it, itself excluded; linearizable."""

    key: str
    range_end: str = ""


Operation: TypeAlias = Put | Delete | Get


@dataclass(slots=True, frozen=True)
class Txn:
    """If all compares hold, `success` is applied, as one revision; otherwise `failure` is."""

    compares: tuple[Compare, ...]
    success: tuple[Operation, ...]
    failure: tuple[Operation, ...] = ()


@dataclass(slots=True, frozen=True)
class KeyValue:
    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = NO_LEASE


@dataclass(slots=True, frozen=True)
class TxnResult:
    """`revision` is the store's after the Txn: the one it made, if it changed anything.

    `reads` has an item per operation of the branch that was applied: what a Get read, sorted by key; empty for the
    others.
    """

    succeeded: bool
    revision: int
    reads: tuple[tuple[KeyValue, ...], ...]


@dataclass(slots=True, frozen=True)
class WatchEvent:
    """A change of one key. For a deletion `key_value` has the key and, as mod_revision, the revision of the
    deletion.
    """

    key_value: KeyValue
    deleted: bool = False


@dataclass(slots=True, frozen=True)
class Snapshot:
    """Everything under a prefix at one revision, sorted by key: how a watch begins, and continues after a
    compaction.
    """

    revision: int
    key_values: tuple[KeyValue, ...]


@dataclass(slots=True, frozen=True)
class WatchBatch:
    """The changes after the previous Snapshot or batch, in order; all changes of a revision are in one batch.

    `revision` is the last event's.
    """

    revision: int
    events: tuple[WatchEvent, ...]


def prefix_end(prefix: str) -> str:
    """Return the `range_end` of the range of every key that begins with `prefix` (not empty, ASCII)."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def absent(key: str) -> Compare:
    return Compare(key, CompareTarget.CREATE_REVISION, 0)


def created_at(key: str, revision: int) -> Compare:
    return Compare(key, CompareTarget.CREATE_REVISION, revision)


def modified_at(key: str, revision: int) -> Compare:
    return Compare(key, CompareTarget.MOD_REVISION, revision)
