"""What a key in etcd means, and what a batch of changes of keys has changed, for those who pass it on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from barnabas.cluster.acls import Acl
from barnabas.cluster.delegation_tokens import DelegationToken
from barnabas.cluster.keys import (
    PARTITIONS_PER_CHUNK,
    ControllerRegistration,
    GatewayRegistration,
    LogstoreRegistration,
    PartitionChunk,
    PurgatoryRegistration,
    Record,
)
from barnabas.cluster.quotas.entities import ClientQuota
from barnabas.cluster.scram import UserScramCredential

RegistrationT = TypeVar(
    "RegistrationT", LogstoreRegistration, GatewayRegistration, PurgatoryRegistration, ControllerRegistration
)


@dataclass(slots=True, frozen=True)
class Registered(Generic[RegistrationT]):
    """A registration with the epoch that etcd gave it (its create revision) and its lease."""

    record: RegistrationT
    epoch: int
    lease: int


@dataclass(slots=True, frozen=True)
class Elected:
    """The election key, apart from the registration of the controller that holds it."""

    controller_id: str


Held: TypeAlias = Record | Registered[Any] | Elected
"""The meaning of a key, for events."""


@dataclass(slots=True, frozen=True)
class Transition:
    """One key before and after a change; None: it does not exist."""

    revision: int
    before: Held | None
    after: Held | None


@dataclass(slots=True)
class Changes:
    """What a batch changed, to be sent to the members. Insertion order is the order of the revisions."""

    topics: dict[bytes, None] = field(default_factory=dict)
    # Of these, the partitions that have changed or are new, if nothing else of the topic has changed.
    partitions: dict[bytes, set[int]] = field(default_factory=dict)
    deleted_topics: dict[bytes, None] = field(default_factory=dict)
    # By node: the partitions that it has no replica of any more.
    removed_replicas: dict[int, list[tuple[bytes, int]]] = field(default_factory=dict)
    logstores: bool = False
    members: bool = False
    broker_configs: bool = False
    # ACLs that are new (True) or gone.
    acls: dict[Acl, bool] = field(default_factory=dict)
    # SCRAM credentials, by user and mechanism, that are new or have changed, or are gone (None).
    scram_credentials: dict[tuple[str, int], UserScramCredential | None] = field(default_factory=dict)
    # Quotas that have changed, by key; an entity without quotas has none any more.
    client_quotas: dict[str, ClientQuota] = field(default_factory=dict)
    # Delegation tokens, by id, that are new or were renewed, or are gone (None).
    delegation_tokens: dict[str, DelegationToken | None] = field(default_factory=dict)
    finalized_features: bool = False
    # Whether the set of drained logstores has changed.
    drains: bool = False
    # Whether the balance was paused or resumed.
    balance: bool = False
    # A value that could not be read now can be, or is gone: the members need the full state.
    everything: bool = False
    # In order, for the events of operators.
    transitions: list[Transition] = field(default_factory=list)


def note_removed_replicas(before: PartitionChunk | None, after: PartitionChunk, changes: Changes) -> None:
    if before is None:
        return
    pairs = zip(before.partitions, after.partitions, strict=False)
    for number, (old, new) in enumerate(pairs, after.chunk * PARTITIONS_PER_CHUNK):
        if old.replicas != new.replicas:
            for node_id in set(old.replicas).difference(new.replicas):
                changes.removed_replicas.setdefault(node_id, []).append((after.topic_id, number))


def note_changed_partitions(before: PartitionChunk | None, after: PartitionChunk, changes: Changes) -> None:
    if before is None or len(before.partitions) > len(after.partitions):
        note_whole_topic(after.topic_id, changes)
        return
    first = after.chunk * PARTITIONS_PER_CHUNK
    pairs = zip(before.partitions, after.partitions, strict=False)
    changed = [number for number, (old, new) in enumerate(pairs, first) if old != new]
    added = range(first + len(before.partitions), first + len(after.partitions))
    note_partitions(after.topic_id, [*changed, *added], changes)


def note_whole_topic(topic_id: bytes, changes: Changes) -> None:
    changes.topics[topic_id] = None
    changes.partitions.pop(topic_id, None)


def note_partitions(topic_id: bytes, numbers: Iterable[int], changes: Changes) -> None:
    """A batch may contain the same chunk, and its topic, several times."""
    is_whole = topic_id in changes.topics and topic_id not in changes.partitions
    if not is_whole:
        changes.topics[topic_id] = None
        changes.partitions.setdefault(topic_id, set()).update(numbers)
