"""One partition's next state: who leads it and who is in sync, after something happened to its replicas.

The rules of KRaft's PartitionChangeBuilder, in small. A leader epoch changes when and only when the leader does (its
restart counts), a partition epoch with every change. Who is gone leaves the ISR at once, so that acks=all need not wait
for `replica.lag.time.max.ms`; but the last member never leaves: without another it stays, leaderless, until it is back
(or until an unclean election, where the topic allows one). While the ISR is under `min.insync.replicas` no watermark
moves, so whoever leaves it then still holds every committed record, and may lead again: the eligible leader replicas
of KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER


@dataclass(slots=True, frozen=True)
class Liveness:
    """What elections know of logstores: the epoch of each one's registration, and which are about to stop."""

    broker_epochs: dict[int, int]
    stopping: frozenset[int] = frozenset()

    def is_live(self, node_id: int) -> bool:
        return node_id in self.broker_epochs and node_id not in self.stopping

    def epoch_of(self, node_id: int) -> int:
        return self.broker_epochs.get(node_id, NO_EPOCH)


@dataclass(slots=True, frozen=True)
class TopicRules:
    """Of the partition's topic: `min.insync.replicas`, `unclean.leader.election.enable`."""

    min_insync_replicas: int = 1
    unclean_election: bool = False


def after_liveness(partition: PartitionRecord, live: Liveness, rules: TopicRules) -> PartitionRecord:
    """The state after logstores have come, gone, or restarted; the same object when nothing has to change."""
    members = tuple(node_id for node_id in partition.in_sync_replicas if live.is_live(node_id))
    keeps_leader = live.is_live(partition.leader) and live.epoch_of(partition.leader) == partition.leader_broker_epoch
    if keeps_leader:
        return _with_members(partition, members, rules)
    elected = _first(partition.replicas, lambda node_id: node_id in members and node_id != partition.leader)
    if elected is None:
        elected = _first(partition.replicas, lambda node_id: node_id in members)
    if elected is not None:
        return _led_by(_with_members(partition, members, rules), elected, live)
    eligible = _first(
        partition.replicas, lambda node_id: node_id in partition.eligible_leader_replicas and live.is_live(node_id)
    )
    if eligible is not None:
        return _led_by(_with_members(partition, (eligible,), rules), eligible, live)
    if rules.unclean_election:
        unclean = _first(partition.replicas, live.is_live)
        if unclean is not None:
            return led_unclean(partition, unclean, live)
    if partition.leader == NO_LEADER:
        return partition
    last = partition.leader if partition.leader in partition.in_sync_replicas else partition.in_sync_replicas[0]
    return _led_by(_with_members(partition, (last,), rules), NO_LEADER, live)


def with_isr(
    partition: PartitionRecord, members: Sequence[int], rules: TopicRules, *, recovered: bool
) -> PartitionRecord:
    """The ISR that the leader asks for, in the order of the replicas."""
    ordered = tuple(node_id for node_id in partition.replicas if node_id in members)
    changed = _with_members(partition, ordered, rules)
    if recovered and changed.leader_recovering:
        changed = replace(changed, leader_recovering=False, partition_epoch=partition.partition_epoch + 1)
    return changed


def led_by_preferred(partition: PartitionRecord, live: Liveness) -> PartitionRecord | None:
    """Its first replica as leader; None when that one is not live and in sync."""
    preferred = partition.replicas[0]
    if preferred == partition.leader:
        return partition
    if preferred not in partition.in_sync_replicas or not live.is_live(preferred):
        return None
    return _led_by(partition, preferred, live)


def led_unclean(partition: PartitionRecord, node_id: int, live: Liveness) -> PartitionRecord:
    """A leader that may lack committed records: it starts alone, and says when it has looked at its log (KIP-704)."""
    return replace(
        _led_by(partition, node_id, live),
        in_sync_replicas=(node_id,),
        eligible_leader_replicas=(),
        leader_recovering=True,
    )


def reassigned(partition: PartitionRecord, replicas: Sequence[int]) -> PartitionRecord:
    """Begin to move to `replicas`: targets come last, so that the leader stays preferred until they are in sync."""
    target = tuple(replicas)
    now = tuple(each for each in partition.replicas if each not in partition.adding_replicas)
    adding = tuple(each for each in target if each not in now)
    removing = tuple(each for each in now if each not in target)
    # What an earlier reassignment was adding and this one is not: its copies go at once.
    union = (*target, *removing)
    members = tuple(each for each in union if each in partition.in_sync_replicas)
    return replace(
        partition,
        partition_epoch=partition.partition_epoch + 1,
        replicas=union,
        in_sync_replicas=members or partition.in_sync_replicas,
        adding_replicas=adding,
        removing_replicas=removing,
    )


def reassignment_cancelled(partition: PartitionRecord) -> PartitionRecord | None:
    """Back to the replicas of before; None when none of them is in sync, as then nobody could lead."""
    kept = tuple(each for each in partition.replicas if each not in partition.adding_replicas)
    members = tuple(each for each in kept if each in partition.in_sync_replicas)
    if not members:
        return None
    return replace(
        partition,
        partition_epoch=partition.partition_epoch + 1,
        replicas=kept,
        in_sync_replicas=members,
        adding_replicas=(),
        removing_replicas=(),
    )


def reassignment_completed(partition: PartitionRecord, live: Liveness) -> PartitionRecord:
    """Drop what is to be removed, once every target is in sync; the same object while one is not."""
    if not partition.adding_replicas and not partition.removing_replicas:
        return partition
    target = tuple(each for each in partition.replicas if each not in partition.removing_replicas)
    if not set(target) <= set(partition.in_sync_replicas):
        return partition
    done = replace(
        partition,
        partition_epoch=partition.partition_epoch + 1,
        replicas=target,
        in_sync_replicas=target,
        adding_replicas=(),
        removing_replicas=(),
        eligible_leader_replicas=(),
    )
    if done.leader in target:
        return done
    elected = _first(target, live.is_live)
    return partition if elected is None else _led_by(done, elected, live)


def _with_members(partition: PartitionRecord, members: Sequence[int], rules: TopicRules) -> PartitionRecord:
    """Another ISR, and who may lead besides it; the same object where nothing changes or nobody would stay."""
    in_sync = tuple(members)
    if not in_sync:
        return partition
    minimum = min(rules.min_insync_replicas, len(partition.replicas))
    eligible: tuple[int, ...] = ()
    if len(in_sync) < minimum:
        left = (*partition.eligible_leader_replicas, *partition.in_sync_replicas)
        eligible = tuple(each for each in partition.replicas if each in left and each not in in_sync)
    if in_sync == partition.in_sync_replicas and eligible == partition.eligible_leader_replicas:
        return partition
    return replace(
        partition,
        partition_epoch=partition.partition_epoch + 1,
        in_sync_replicas=in_sync,
        eligible_leader_replicas=eligible,
    )


def _led_by(partition: PartitionRecord, node_id: int, live: Liveness) -> PartitionRecord:
    return replace(
        partition,
        leader=node_id,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        leader_broker_epoch=live.epoch_of(node_id),
    )


def _first(node_ids: Sequence[int], wanted: Callable[[int], bool]) -> int | None:
    return next((node_id for node_id in node_ids if wanted(node_id)), None)
