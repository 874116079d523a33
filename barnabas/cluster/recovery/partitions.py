"""Recover one partition: its replicas, its in-sync replicas, and its leader epoch.

There is no leader yet: the controller elects from the in-sync replicas, as it does after any restart. In sync is the
replica whose log ranks highest, and every other whose log is the same; the others follow, and are truncated where they
diverge. That log has every committed record if the logs of all replicas were inspected, or of so many that the others
alone can't have acknowledged anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.cluster.inspection import PartitionFound
from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER
from barnabas.cluster.recovery.found import rank

EPOCHS_SKIPPED: Final = 1000
"""How far to go past the last known epoch: elections may have raised it without a record, and clients have seen it. A
client does not accept metadata of an older epoch than it has seen."""


class Loss(Enum):
    """Acknowledged records of a partition that may be missing."""

    NOTHING = "nothing"
    EVERYTHING = "it has no log on any disk that was inspected, and starts empty"
    OFFLINE = "it has no log on any disk that was inspected, and stays offline until a logstore with one is back"
    THE_END = "the best log ends before the last recorded high watermark"
    UNKNOWN = "replicas that were not inspected may have had later records"


@dataclass(slots=True, frozen=True)
class RecoveredPartition:
    record: PartitionRecord
    loss: Loss


def recover_partition(
    logs: Mapping[int, PartitionFound],
    remembered: PartitionRecord | None,
    absent: frozenset[int],
    *,
    fallback: Sequence[int],
    replication_factor: int,
    min_insync_replicas: int,
) -> RecoveredPartition:
    """`logs` by node; `absent` are nodes that could not be inspected, `fallback` is where an empty one is created."""
    replicas = _replicas(logs, remembered, absent, fallback, replication_factor)
    best = max((rank(log) for log in logs.values()), default=None)
    if best is not None:
        in_sync = [node_id for node_id in replicas if node_id in logs and rank(logs[node_id]) == best]
    else:
        away = [node_id for node_id in replicas if node_id in absent]
        were_in_sync = [node_id for node_id in away if remembered and node_id in remembered.in_sync_replicas]
        in_sync = were_in_sync or away or list(replicas)
    epochs = [log.latest_epoch for log in logs.values()]
    known_epoch = max([NO_EPOCH if remembered is None else remembered.leader_epoch, *epochs])
    record = PartitionRecord(
        leader=NO_LEADER,
        leader_epoch=known_epoch + EPOCHS_SKIPPED,
        partition_epoch=0 if remembered is None else remembered.partition_epoch + 1,
        replicas=tuple(replicas),
        in_sync_replicas=tuple(in_sync),
    )
    # Without a backup, any of those that were not inspected may have been a replica.
    may_have_it = absent if remembered is None else absent.intersection(replicas)
    return RecoveredPartition(record, _loss(logs, replicas, may_have_it - logs.keys(), min_insync_replicas))


def _replicas(
    logs: Mapping[int, PartitionFound],
    remembered: PartitionRecord | None,
    absent: Set[int],
    fallback: Sequence[int],
    replication_factor: int,
) -> list[int]:
    """Return the nodes that have a log, in the remembered order; those that may have one and could not be inspected;
    and, as long as these are too few, those that had one.
    """
    order = [] if remembered is None else list(remembered.replicas)
    replicas = [node_id for node_id in order if node_id in logs or node_id in absent]
    replicas += _by_rank(logs, [node_id for node_id in logs if node_id not in replicas])
    missing = replication_factor - len(replicas)
    if missing > 0:
        replicas += [node_id for node_id in (*order, *fallback) if node_id not in replicas][:missing]
    return list(dict.fromkeys(replicas))


def _by_rank(logs: Mapping[int, PartitionFound], node_ids: list[int]) -> list[int]:
    """The longest first; equal ones rotate by partition, so that no single node is preferred everywhere."""
    if not node_ids:
        return []
    turn = next(iter(logs.values())).partition % len(node_ids)
    in_turn = sorted(node_ids)[turn:] + sorted(node_ids)[:turn]
    return sorted(in_turn, key=lambda node_id: rank(logs[node_id]), reverse=True)


def _loss(
    logs: Mapping[int, PartitionFound], replicas: Sequence[int], not_asked: Set[int], min_insync_replicas: int
) -> Loss:
    """`not_asked` are nodes that may have a log of it."""
    if not logs:
        return Loss.OFFLINE if any(node_id in not_asked for node_id in replicas) else Loss.EVERYTHING
    # Longer logs of earlier epochs are truncated.
    if max(logs.values(), key=rank).log_end_offset < max(log.high_watermark for log in logs.values()):
        return Loss.THE_END
    # Those alone could have been the in-sync replicas that acknowledged a record.
    return Loss.UNKNOWN if len(not_asked) >= max(min_insync_replicas, 1) else Loss.NOTHING
