"""Records on their way into etcd, and how many fit into one Txn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.cluster.keys import Record, encode_record

# etcd refuses more than 128 operations, or 1.5 MB, by default.
OPERATIONS_MAX = 100
BYTES_MAX = 1_000_000


@dataclass(slots=True, frozen=True)
class Write:
    """A key's new value; None removes it."""

    key: str
    value: bytes | None


def put(key: str, record: Record) -> Write:
    return Write(key, encode_record(record))


def pack(writes: Iterable[Write]) -> list[list[Write]]:
    """The writes in order, cut into Txns that etcd takes. A reader may see them broken off between any two."""
    txns: list[list[Write]] = []
    byte_count = 0
    for write in writes:
        size = len(write.key) + len(write.value or b"")
        if not txns or len(txns[-1]) == OPERATIONS_MAX or byte_count + size > BYTES_MAX:
            txns.append([])
            byte_count = 0
        txns[-1].append(write)
        byte_count += size
    return txns


Step: TypeAlias = Callable[[], list[Write]]
"""One Txn of several, made when its turn has come: what it changes may have changed since it was decided."""


def written(writes: list[Write]) -> Step:
    """A Txn that is the same whenever its turn comes: of keys that nobody else writes meanwhile."""
    return lambda: writes
