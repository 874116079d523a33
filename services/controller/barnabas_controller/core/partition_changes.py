"""One partition's next state: who leads it and who is in sync, after something happened to its replicas.

The rules of KRaft's PartitionChangeBuilder, in small. Every function gives the state that follows, and the very same
object where nothing has to change. The epochs are counted in one place (`_committed`): a leader epoch changes when and
only when the leader does (its restart counts) or a replica goes, a partition epoch with every change.

- Who is gone leaves the ISR at once, so that acks=all need not wait for `replica.lag.time.max.ms`. The last member
  never leaves: without another one it stays, leaderless, until it is back, or until an unclean election.
- While the ISR is under `min.insync.replicas` no watermark moves. So whoever leaves it then, and whoever leaves it
  together with those that bring it there, still holds every committed record and may lead again: the eligible leader
  replicas of KIP-966. Where the leader leads on and has not heard of that minimum, its watermark might move: no member
  leaves then, until it has heard (`awaited`), for neither its disk alone nor the one that leaves may be relied on. A
  new leader epoch begins with a LeaderAndIsr that brings the minimum, so a leader elected with the change knows it.
- A replica whose log directory has failed counts as gone, though its logstore is there.
- A replica whose log directory is full can take no more records. It leaves the ISR at once too, and with it the
  leadership, but only where a member stays that has room: otherwise all stays as it is, and is read.
- A logstore that may have lost records (correctness rule 15) is in neither, unless nobody else can know more.
- A logstore that operators drain leads only what nobody else of the ISR can lead, and stays in sync.
- A reassignment (KIP-455) ends in the change that brings its last target into the ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import NO_EPOCH, NO_LEADER


@dataclass(slots=True, frozen=True)
class Liveness:
    """What elections know of logstores: the epoch of each one's registration, and who is not to lead all the same."""

    broker_epochs: dict[int, int]
    # About to stop.
    stopping: frozenset[int] = frozenset()
    # Back after a stop that may have cost records, and not yet taken out of the ISRs that they were in.
    suspect: frozenset[int] = frozenset()
    # By topic id and partition: the nodes that have no disk for their replica (KIP-112).
    without_disk: Mapping[tuple[bytes, int], frozenset[int]] = field(default_factory=dict)
    # Likewise: those whose log directory is full.
    without_room: Mapping[tuple[bytes, int], frozenset[int]] = field(default_factory=dict)
    # Taken out of service by operators: in sync, and not to lead while somebody else can.
    drained: frozenset[int] = frozenset()
    # In a leader epoch that it has begun already, it may lead under a `min.insync.replicas` of before.
    unaware: frozenset[int] = frozenset()
    # Of the partition that this is about (`at`): who has no room for more records.
    full: frozenset[int] = frozenset()

    def at(self, topic_id: bytes, partition: int) -> Liveness:
        """What counts for that partition: whoever has no disk for it is gone, and who is full."""
        key = (topic_id, partition)
        gone, full = self.without_disk.get(key), self.without_room.get(key)
        if gone is None and full is None:
            return self
        standing = {node_id: epoch for node_id, epoch in self.broker_epochs.items() if node_id not in (gone or ())}
        return replace(self, broker_epochs=standing, without_disk={}, without_room={}, full=full or frozenset())

    def is_live(self, node_id: int) -> bool:
        """May lead, and may be in sync."""
        return node_id in self.broker_epochs and node_id not in self.stopping and node_id not in self.suspect

    def epoch_of(self, node_id: int) -> int:
        return self.broker_epochs.get(node_id, NO_EPOCH)


@dataclass(slots=True, frozen=True)
class TopicRules:
    """Of the partition's topic: `min.insync.replicas`, `unclean.leader.election.enable`."""

    min_insync_replicas: int = 1
    unclean_election: bool = False


def first_state(replicas: Sequence[int], live: Liveness) -> PartitionRecord | None:
    """A new partition: led by the first live replica, in sync with all that are live; None where none is."""
    in_sync = tuple([node_id for node_id in replicas if live.is_live(node_id)])
    if not in_sync:
        return None
    leader = next((node_id for node_id in in_sync if node_id not in live.drained), in_sync[0])
    return PartitionRecord(
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        replicas=tuple(replicas),
        in_sync_replicas=in_sync,
        leader_broker_epoch=live.epoch_of(leader),
    )


def after_liveness(partition: PartitionRecord, live: Liveness, rules: TopicRules) -> PartitionRecord:
    """The state after logstores have come, gone, or restarted."""
    members = _first_standing(partition, live)
    stay = awaited(partition, members, live, rules)
    if stay:
        members = tuple([each for each in partition.in_sync_replicas if each in members or each in stay])
    changed = _completed(_with_members(partition, members, live, rules), live)
    if _still_leads(changed, live):
        return _committed(partition, changed)
    return _committed(partition, _with_any_leader(changed, live, rules, unclean=rules.unclean_election))


def awaited(partition: PartitionRecord, members: Sequence[int], live: Liveness, rules: TopicRules) -> tuple[int, ...]:
    """Who does not leave the ISR for `members` before the leader has acknowledged `min.insync.replicas`.

    With them no watermark moves, and without them it would not either: the ISR would be under the minimum. Suspects are
    none of them, since they hold nothing for sure.
    """
    if partition.leader not in live.unaware or len(members) >= _least_in_sync(partition, rules):
        return ()
    if not _still_leads(structs.replace(partition, in_sync_replicas=tuple(members)), live):
        return ()
    leaving = [node_id for node_id in partition.in_sync_replicas if node_id not in members]
    return tuple([node_id for node_id in leaving if node_id not in live.suspect])


def waits_for_leader(partition: PartitionRecord, live: Liveness, rules: TopicRules) -> bool:
    """Whether its state is another one as soon as its leader has acknowledged `min.insync.replicas`."""
    return partition.leader in live.unaware and bool(awaited(partition, _first_standing(partition, live), live, rules))


def with_isr(
    partition: PartitionRecord, members: Sequence[int], live: Liveness, rules: TopicRules, *, recovered: bool
) -> PartitionRecord:
    """The ISR that the leader asks for, itself among it, in the order of the replicas."""
    ordered = tuple([node_id for node_id in partition.replicas if node_id in members])
    changed = _with_members(partition, ordered, live, rules)
    if recovered and changed.leader_recovering:
        changed = structs.replace(changed, leader_recovering=False)
    return _committed(partition, _completed(changed, live))


def led_by_preferred(partition: PartitionRecord, live: Liveness) -> PartitionRecord | None:
    """Its first replica as leader; None when that one is not live and in sync, is drained, or has no room."""
    preferred = partition.replicas[0]
    if preferred == partition.leader:
        return partition
    if not may_take_over(partition, preferred, live):
        return None
    return _committed(partition, _led_by(partition, preferred, live))


def may_take_over(partition: PartitionRecord, node_id: int, live: Liveness) -> bool:
    """Whether it can lead the partition from now on, though nothing has happened to its leader. `live` is `at` it."""
    is_in_sync = node_id in partition.in_sync_replicas and live.is_live(node_id)
    return is_in_sync and node_id not in live.full and node_id not in live.drained


def led_by_anyone(partition: PartitionRecord, live: Liveness, rules: TopicRules) -> PartitionRecord | None:
    """A leader for a partition without one, unclean where it must be; None when no replica is live."""
    assert partition.leader == NO_LEADER
    changed = _with_any_leader(partition, live, rules, unclean=True)
    return None if changed.leader == NO_LEADER else _committed(partition, changed)


def reassigned(
    partition: PartitionRecord, target: Sequence[int], live: Liveness, rules: TopicRules
) -> PartitionRecord | None:
    """Begin to move to `target`; what an earlier move was adding and this one is not goes at once.

    None where no replica that stays can lead. The target's order counts from now on, its first is preferred.
    """
    original = [each for each in partition.replicas if each not in partition.adding_replicas]
    removing = tuple([each for each in original if each not in target])
    return _moved(
        partition,
        replicas=(*target, *removing),
        adding=tuple([each for each in target if each not in original]),
        removing=removing,
        live=live,
        rules=rules,
    )


def reassignment_cancelled(partition: PartitionRecord, live: Liveness, rules: TopicRules) -> PartitionRecord | None:
    """Back to the replicas of before; None when none of them can lead."""
    original = tuple([each for each in partition.replicas if each not in partition.adding_replicas])
    return _moved(partition, replicas=original, adding=(), removing=(), live=live, rules=rules)


def without_eligible(partition: PartitionRecord) -> PartitionRecord:
    """Nobody may lead besides the ISR: `min.insync.replicas` is about to be another one, and watermarks may move."""
    return _committed(partition, structs.replace(partition, eligible_leader_replicas=()))


def _moved(
    partition: PartitionRecord,
    *,
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    live: Liveness,
    rules: TopicRules,
) -> PartitionRecord | None:
    members = tuple([each for each in replicas if each in partition.in_sync_replicas])
    if not members:
        return None
    changed = structs.replace(
        partition,
        replicas=replicas,
        in_sync_replicas=members,
        adding_replicas=adding,
        removing_replicas=removing,
        eligible_leader_replicas=tuple(
            [each for each in replicas if each in partition.eligible_leader_replicas and each not in members]
        ),
    )
    changed = _completed(changed, live)
    if changed.leader not in changed.in_sync_replicas:
        changed = _with_any_leader(changed, live, rules, unclean=False)
        if changed.leader == NO_LEADER != partition.leader:
            return None
    return _committed(partition, changed)


def _first_standing(partition: PartitionRecord, live: Liveness) -> tuple[int, ...]:
    """The ISR without those that are gone, and without those that are full unless all are; at least one, and then the
    one who surely holds every committed record.
    """
    members = tuple([node_id for node_id in partition.in_sync_replicas if live.is_live(node_id)])
    if members:
        return tuple([node_id for node_id in members if node_id not in live.full]) or members
    eligible = [node_id for node_id in partition.eligible_leader_replicas if node_id not in live.suspect]
    for node_id in sorted(eligible, key=live.full.__contains__):
        if live.is_live(node_id):
            return (node_id,)
    sure = [node_id for node_id in partition.in_sync_replicas if node_id not in live.suspect]
    if partition.leader in sure:
        return (partition.leader,)
    return tuple((sure or eligible or partition.in_sync_replicas)[:1])


def _least_in_sync(partition: PartitionRecord, rules: TopicRules) -> int:
    """Watermarks move where so many are in sync."""
    # Targets of a move don't count before they are there, as in the leader's own check.
    return min(rules.min_insync_replicas, len(partition.replicas) - len(partition.adding_replicas))


def _with_members(
    partition: PartitionRecord, members: tuple[int, ...], live: Liveness, rules: TopicRules
) -> PartitionRecord:
    """Another ISR, and who may lead besides it."""
    assert members, "the last member of an ISR stays"
    eligible: tuple[int, ...] = ()
    if len(members) < _least_in_sync(partition, rules):
        left = (*partition.eligible_leader_replicas, *partition.in_sync_replicas)
        eligible = tuple(
            [each for each in partition.replicas if each in left and each not in members and each not in live.suspect]
        )
    if members == partition.in_sync_replicas and eligible == partition.eligible_leader_replicas:
        return partition
    return structs.replace(partition, in_sync_replicas=members, eligible_leader_replicas=eligible)


def _still_leads(partition: PartitionRecord, live: Liveness) -> bool:
    leader = partition.leader
    if leader in live.drained and any(may_take_over(partition, node_id, live) for node_id in partition.replicas):
        return False
    return (
        leader in partition.in_sync_replicas
        and live.is_live(leader)
        and live.epoch_of(leader) == partition.leader_broker_epoch
    )


def _with_any_leader(
    partition: PartitionRecord, live: Liveness, rules: TopicRules, *, unclean: bool
) -> PartitionRecord:
    """The first live member of the ISR in the order of the replicas: one that is not drained, and another one than has
    led, where there is one.
    """
    may_lead = [each for each in partition.replicas if each in partition.in_sync_replicas and live.is_live(each)]
    if may_lead:
        elected = min(may_lead, key=lambda node_id: (node_id in live.drained, node_id == partition.leader))
        return _led_by(partition, elected, live)
    eligible = _first(
        partition.replicas, lambda node_id: node_id in partition.eligible_leader_replicas and live.is_live(node_id)
    )
    if eligible is not None:
        return _led_by(_with_members(partition, (eligible,), live, rules), eligible, live)
    # Whoever stops or has just come back is not gone: nothing is given up for the sake of a moment.
    sure = (*partition.in_sync_replicas, *partition.eligible_leader_replicas)
    if unclean and not any(node_id in live.broker_epochs for node_id in sure):
        found = _first(partition.replicas, live.is_live)
        if found is not None:
            return _led_unclean(partition, found, live)
    return _led_by(partition, NO_LEADER, live)


def _led_by(partition: PartitionRecord, node_id: int, live: Liveness) -> PartitionRecord:
    return structs.replace(partition, leader=node_id, leader_broker_epoch=live.epoch_of(node_id))


def _led_unclean(partition: PartitionRecord, node_id: int, live: Liveness) -> PartitionRecord:
    """A leader that may lack committed records: it starts alone, and says when it has looked at its log (KIP-704)."""
    return structs.replace(
        _led_by(partition, node_id, live),
        in_sync_replicas=(node_id,),
        eligible_leader_replicas=(),
        leader_recovering=True,
    )


def _completed(partition: PartitionRecord, live: Liveness) -> PartitionRecord:
    """Drop what is to be removed, once every target is in sync and one of them can lead.

    Not for a leader that may lack records: what is to be removed may be all that has them.
    """
    is_moving = partition.adding_replicas or partition.removing_replicas
    if not is_moving or partition.leader_recovering:
        return partition
    target = tuple([each for each in partition.replicas if each not in partition.removing_replicas])
    if not set(target) <= set(partition.in_sync_replicas):
        return partition
    leader = partition.leader if partition.leader in target else _first(_drained_last(target, live), live.is_live)
    if leader is None:
        return partition
    done = structs.replace(
        partition,
        replicas=target,
        in_sync_replicas=target,
        adding_replicas=(),
        removing_replicas=(),
        eligible_leader_replicas=(),
    )
    return done if leader == partition.leader else _led_by(done, leader, live)


def _committed(before: PartitionRecord, after: PartitionRecord) -> PartitionRecord:
    """The epochs of a change.

    A replica that goes ends the leader epoch too, as in KRaft: it may come back as an empty one, for which nothing that
    it has fetched before must count.
    """
    if after == before:
        return before
    has_another_leader = (after.leader, after.leader_broker_epoch) != (before.leader, before.leader_broker_epoch)
    has_lost_a_replica = not set(before.replicas) <= set(after.replicas)
    return structs.replace(
        after,
        leader_epoch=before.leader_epoch + (has_another_leader or has_lost_a_replica),
        partition_epoch=before.partition_epoch + 1,
    )


def _drained_last(node_ids: Sequence[int], live: Liveness) -> list[int]:
    return sorted(node_ids, key=live.drained.__contains__)


def _first(node_ids: Sequence[int], wanted: Callable[[int], bool]) -> int | None:
    return next((node_id for node_id in node_ids if wanted(node_id)), None)
