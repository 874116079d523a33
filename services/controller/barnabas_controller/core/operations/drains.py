"""Drains: whether a logstore can be taken out of service, what is left to do, and the moves that do it.

A drained logstore stays in sync and leads nothing that another member of the ISR can lead: the elections ensure it
(`Liveness.drained`) whenever something changes, so that a drain continues under any active controller. With
`move_replicas` each of its replicas is also moved to another logstore, MOVES_MAX partitions at a time; what can't be
moved at present is looked at again when anything changes.

A drain is refused if stopping the logstore would then break something: if a partition would be left without a leader,
or with fewer in-sync replicas than `min.insync.replicas`, other drained logstores not counted; with `move_replicas`, if
there is no logstore that could take a replica, or none to copy it from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.cluster.keys import PartitionRecord
from barnabas_controller.core.members.liveness import LogstoreLiveness
from barnabas_controller.core.state.changes import Changes
from barnabas_controller.core.state.chunk_changes import ChunkChanges, PartitionKey
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import Liveness, may_take_over, reassigned
from barnabas_controller.core.state.topic_rules import TopicRulesTable
from barnabas_controller.core.state.unknown_state import knows_all_partitions
from barnabas_controller.core.state.writes import Write
from barnabas_controller.core.topics.replica_spread import ReplicaSpread

MOVES_MAX: Final = 50
"""Partitions that are moved off a logstore at a time: each uses the disks and links of the others."""
NAMED_MAX: Final = 10
BLOCKED_MAX: Final = 20


@dataclass(slots=True)
class DrainProgress:
    leaders: int = 0
    replicas: int = 0
    # Of these, how many are moving.
    moving: int = 0
    blocked: list[str] = field(default_factory=list)


class Drains:
    def __init__(self, image: ControllerImage, liveness: LogstoreLiveness, rules: TopicRulesTable) -> None:
        self._image = image
        self._liveness = liveness
        self._rules = rules

    def refusal(self, node_id: int, *, move_replicas: bool) -> str:
        """Return why it can't be drained, naming partitions; empty: it can be."""
        without_leader: list[str] = []
        under_minimum: list[str] = []
        without_place: list[str] = []
        without_source: list[str] = []
        live = self._liveness.current()
        drained = live.drained | {node_id}
        if not knows_all_partitions(self._image):
            why = "partitions whose state in etcd is unreadable may have replicas there; make it readable first"
            return f"logstore {node_id} can't be drained: {why}"
        # By topic: finding a topic's rules takes as long as checking a hundred partitions.
        minimums: dict[bytes, int] = {}
        for name, key, partition in self._replicas_of(node_id):
            here = live.at(*key)
            if move_replicas:
                if node_id in partition.removing_replicas:
                    continue
                if not self._places(partition, live, drained):
                    without_place.append(name)
                elif not any(here.is_live(each) for each in partition.in_sync_replicas):
                    without_source.append(name)
                continue
            staying = [each for each in partition.in_sync_replicas if each not in drained]
            if node_id not in partition.in_sync_replicas:
                continue
            if not any(may_take_over(partition, each, here) for each in staying):
                without_leader.append(name)
            else:
                if key[0] not in minimums:
                    minimums[key[0]] = self._rules.of(key[0]).min_insync_replicas
                if len(staying) < _needed(partition, minimums[key[0]]):
                    under_minimum.append(name)
        problems = [
            _problem(without_leader, "would have no leader", "give them more replicas, or drain with replicas moved"),
            _problem(
                under_minimum,
                "would be below min.insync.replicas",
                "wait until their replicas are in sync, or drain with replicas moved",
            ),
            _problem(without_place, "would have no place for a replica", "add a logstore, or return a drained one"),
            _problem(without_source, "have no live in-sync replica to copy from", "start the logstores that have one"),
        ]
        reported = "; ".join([problem for problem in problems if problem])
        return f"logstore {node_id} can't be drained: {reported}" if reported else ""

    def progress(self, node_id: int) -> DrainProgress:
        """Return what a drained logstore still leads and has."""
        progress = DrainProgress()
        record = self._image.drains.get(node_id)
        live = self._liveness.current()
        for name, key, partition in self._replicas_of(node_id):
            progress.replicas += 1
            is_moving = node_id in partition.removing_replicas
            progress.moving += is_moving
            leads = partition.leader == node_id
            progress.leaders += leads
            if record is None or len(progress.blocked) >= BLOCKED_MAX:
                continue
            if record.move_replicas and not is_moving:
                if not self._places(partition, live, live.drained):
                    progress.blocked.append(f"{name}: no live logstore has a place for a replica")
                elif not any(live.at(*key).is_live(each) for each in partition.in_sync_replicas):
                    progress.blocked.append(f"{name}: no live in-sync replica to copy from")
            elif leads and not is_moving and not record.move_replicas:
                progress.blocked.append(f"{name}: no other in-sync replica can lead it")
        return progress

    def may_go_on_after(self, changes: Changes) -> bool:
        """Whether moves may be possible that were not before: a node came or went, a replica has left a drained
        logstore, or a partition with a replica there has changed. On any other change the controller looks at no
        partition for drains.
        """
        emptied = {node_id for node_id, record in self._image.drains.items() if record.move_replicas}
        if not emptied:
            return False
        if changes.logstores or changes.members or changes.drains or changes.deleted_topics:
            return True
        return not emptied.isdisjoint(changes.removed_replicas) or any(
            not emptied.isdisjoint(partition.replicas) for partition in self._changed(changes)
        )

    def _changed(self, changes: Changes) -> Iterator[PartitionRecord]:
        for topic_id in changes.topics:
            numbers = changes.partitions.get(topic_id)
            if numbers is None:
                yield from [partition for _, partition in self._image.partitions(topic_id)]
            else:
                found = [self._image.partition(topic_id, number) for number in sorted(numbers)]
                yield from [partition for partition in found if partition is not None]

    def next_moves(self) -> list[Write]:
        """Return the moves off drained logstores to begin now, at most one Txn's worth."""
        image, live = self._image, self._liveness.current()
        spread: ReplicaSpread | None = None
        changes = ChunkChanges(image)
        for node_id, record in sorted(image.drains.items()):
            if not record.move_replicas:
                continue
            replicas = list(self._replicas_of(node_id))
            room = MOVES_MAX - sum([node_id in partition.removing_replicas for _, _, partition in replicas])
            for _, key, _ in replicas:
                if room <= 0:
                    break
                # Another drain may have changed it in the same Txn.
                partition = changes.find(key)
                if partition is None or node_id in partition.removing_replicas:
                    continue
                spread = spread or self._spread(live)
                moved = self._moved(node_id, key, partition, live, spread)
                if moved is None:
                    continue
                if not changes.put(key, moved):
                    return changes.writes()
                room -= 1
        return changes.writes()

    def _moved(
        self, node_id: int, key: PartitionKey, partition: PartitionRecord, live: Liveness, spread: ReplicaSpread
    ) -> PartitionRecord | None:
        """Return the partition on its way to another logstore in place of this one; None if it can't be moved now."""
        target = _target(partition)
        places = self._places(partition, live, live.drained)
        here = live.at(*key)
        if node_id not in target or not places or not any(here.is_live(each) for each in partition.in_sync_replicas):
            return None
        position = target.index(node_id)
        rest = [each for each in target if each != node_id]
        substitute = spread.substitute(rest, places, is_preferred=position == 0)
        return reassigned(partition, [*rest[:position], substitute, *rest[position:]], here, self._rules.of(key[0]))

    def _places(self, partition: PartitionRecord, live: Liveness, drained: frozenset[int]) -> list[int]:
        """Return the logstores that could take one more replica of it. One that it is just leaving could not: the
        replica would stay.
        """
        return [
            node_id
            for node_id in sorted(self._image.logstores)
            if live.is_live(node_id) and node_id not in drained and node_id not in partition.replicas
        ]

    def _spread(self, live: Liveness) -> ReplicaSpread:
        image = self._image
        spread = ReplicaSpread(
            {
                node_id: registered.record.rack
                for node_id, registered in sorted(image.logstores.items())
                if live.is_live(node_id) and node_id not in live.drained
            }
        )
        for topic_id in image.topics_by_id:
            for chunk in image.chunks_of(topic_id):
                spread.add(image.replica_counts.of(chunk))
        return spread

    def _replicas_of(self, node_id: int) -> Iterator[tuple[str, PartitionKey, PartitionRecord]]:
        """Yield the partitions that it has a replica of, by the names of their topics."""
        image = self._image
        for topic, record in sorted(image.topics.items()):
            for number, partition in image.partitions(record.topic_id):
                if node_id in partition.replicas:
                    yield f"{topic}-{number}", (record.topic_id, number), partition


def _needed(partition: PartitionRecord, min_insync_replicas: int) -> int:
    """Count as the leader does: a topic with fewer replicas than its minimum needs all of them in sync."""
    return min(min_insync_replicas, len(partition.replicas) - len(partition.adding_replicas))


def _target(partition: PartitionRecord) -> list[int]:
    """Return the replicas that the partition has, or is to have."""
    return [each for each in partition.replicas if each not in partition.removing_replicas]


def _problem(names: Sequence[str], what: str, advice: str) -> str:
    if not names:
        return ""
    return f"{named(names)} {what} ({advice})"


def named(names: Sequence[str]) -> str:
    """Name the first few, and how many more there are."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
