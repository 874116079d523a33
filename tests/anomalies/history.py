"""Histories of transactions over logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

Partition = tuple[str, int]
"""Topic and number."""


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Its client was not answered."""


@dataclass(slots=True, frozen=True)
class Append:
    """A record, whose value no other has."""

    partition: Partition
    value: str


@dataclass(slots=True, frozen=True)
class Read:
    """What a transaction was given of a partition: offsets and values, in the order in which it got them; from
    `begin` on everything that was committed.
    """

    partition: Partition
    begin: int
    records: tuple[tuple[int, str], ...]


@dataclass(slots=True)
class Transaction:
    """What one client did in one transaction; a consumer without transactions makes one of each of its polls."""

    name: str
    appends: Sequence[Append] = ()
    reads: Sequence[Read] = ()
    outcome: Outcome = Outcome.COMMITTED


@dataclass(slots=True)
class TransactionHistory:
    """`logs`: what a read_committed reader finds at the end, by offset; a record that is deleted is not there.
    `starts`: the log start offset of the partitions where it is not 0.
    """

    transactions: Sequence[Transaction]
    logs: Mapping[Partition, Mapping[int, str]]
    starts: Mapping[Partition, int] = field(default_factory=dict)
