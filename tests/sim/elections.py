"""What etcd says of partitions, which is what the controllers have decided: who leads, who is in sync, since when.

Every change is looked at as it is committed: I6, epochs never go back and a leader epoch changes when and only when the
leader does; a leader is registered, and comes from those that surely have every committed record, or the election is
unclean and an operator has allowed that; nothing is done that drains forbid (`drains.py`). What logstores take for
their state must have been such a record (I11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.cluster.keys import (
    PARTITIONS_PER_CHUNK,
    DeletionRecord,
    Keys,
    PartitionChunk,
    PartitionRecord,
    Role,
    TopicRecord,
    decode_record,
)
from barnabas.cluster.messages import NO_LEADER
from barnabas.cluster.operation_records import DrainRecord
from barnabas.ports.etcd import KeyValue
from tests.sim.drains import DrainRules
from tests.sim.etcd_model import EtcdModel
from tests.sim.history import Partition, name
from tests.sim.scheduler import InvariantViolation
from tests.sim.topology import MIN_ISR, UNCLEAN

Elected = Callable[[Partition, PartitionRecord, bool], None]
Altered = Callable[[Partition, PartitionRecord], None]


class Shortages(NamedTuple):
    """How often fewer replicas of a partition than its `min.insync.replicas` have been in sync, so that appends are
    refused: so many times has that begun, and so many times is it over.
    """

    begun: int
    over: int


class Elections:
    def __init__(self, elected: Elected, altered: Altered) -> None:
        """`elected` hears of every new leader epoch, and whether that was an unclean election; then `altered` of every
        change.
        """
        self._elected = elected
        self._altered = altered
        self._keys = Keys()
        self._logstores = self._keys.registrations(Role.LOGSTORE)
        self._revision = 0
        self.current: dict[Partition, PartitionRecord] = {}
        # The last record under each leader epoch, and every record by both epochs.
        self._by_leader_epoch: dict[tuple[Partition, int], PartitionRecord] = {}
        self._by_epochs: dict[tuple[Partition, int, int], PartitionRecord] = {}
        # Every registration that a logstore has ever had: its node id and its epoch.
        self._registrations: dict[tuple[int, int], None] = {}
        self.topics: dict[bytes, TopicRecord] = {}
        self._ids: dict[str, list[bytes]] = {}
        # Topics that are deleted, and of these the ones whose replicas have not all gone yet.
        self.deleted: dict[bytes, None] = {}
        self.being_deleted: dict[bytes, None] = {}
        # By topic: the least that `min.insync.replicas` ever was.
        self._min_isr: dict[bytes, int] = {}
        self.unclean_elections = 0
        # Topics for which an operator has requested unclean elections (ElectLeaders), whatever they say themselves.
        self.unclean_is_asked: dict[str, None] = {}
        self.transitions = 0
        self._shortages: dict[Partition, Shortages] = {}
        self.drains = DrainRules()

    def etcd_changed(self, model: EtcdModel) -> None:
        """After everything that may have changed it."""
        for revision in range(self._revision + 1, model.revision + 1):
            for event in model.history(revision):
                key = event.key_value.key
                if not event.deleted:
                    self._put(event.key_value)
                elif key.startswith(self._keys.deletions):
                    self.being_deleted.pop(bytes.fromhex(key[len(self._keys.deletions) :]), None)
                elif key.startswith(self._keys.operations.drains):
                    self.drains.returned(int(key[len(self._keys.operations.drains) :]))
        self._revision = model.revision

    def _put(self, key_value: KeyValue) -> None:
        key, value = key_value.key, key_value.value
        if key.startswith(self._logstores):
            self._registrations[int(key[len(self._logstores) :]), key_value.create_revision] = None
        keys = self._keys
        if not key.startswith((keys.partitions, keys.topics, keys.deletions, keys.operations.drains)):
            return
        match decode_record(self._keys, key, value):
            case TopicRecord() as topic:
                if topic.topic_id not in self.topics:
                    self._ids.setdefault(topic.topic, []).append(topic.topic_id)
                self.topics[topic.topic_id] = topic
                minimum = int(topic.configs.get(MIN_ISR, "1"))
                self._min_isr[topic.topic_id] = min(minimum, self._min_isr.get(topic.topic_id, minimum))
                for each, record in self.current.items():
                    if each[0] == topic.topic_id:
                        self._count_shortages(each, record)
            case DeletionRecord() as deletion:
                self.deleted[deletion.topic_id] = self.being_deleted[deletion.topic_id] = None
            case DrainRecord() as drain:
                self.drains.drained(drain, self._existing_with_min_isr())
            case PartitionChunk() as chunk:
                for number, record in enumerate(chunk.partitions, chunk.chunk * PARTITIONS_PER_CHUNK):
                    self._follow((chunk.topic_id, number), record)

    def _follow(self, key: Partition, record: PartitionRecord) -> None:
        before = self.current.get(key)
        if record == before:
            return
        self.transitions += 1
        self._check(key, record)
        is_new_epoch = before is None or record.leader_epoch != before.leader_epoch
        self.drains.decided(key, before, record)
        self.current[key] = record
        self._count_shortages(key, record)
        self._by_leader_epoch[key, record.leader_epoch] = record
        self._by_epochs[key, record.leader_epoch, record.partition_epoch] = record
        if is_new_epoch:
            self._elected(key, record, self._is_unclean(key, before, record))
        self._altered(key, record)

    def _count_shortages(self, key: Partition, record: PartitionRecord) -> None:
        topic = self.topics.get(key[0])
        begun, over = self.shortages_of(key)
        if topic is not None and len(record.in_sync_replicas) < int(topic.configs.get(MIN_ISR, "1")):
            self._shortages[key] = Shortages(over + 1, over)
        elif begun > over:
            self._shortages[key] = Shortages(begun, begun)

    def shortages_of(self, key: Partition) -> Shortages:
        return self._shortages.get(key, Shortages(0, 0))

    def _check(self, key: Partition, record: PartitionRecord) -> None:
        if not set(record.in_sync_replicas) <= set(record.replicas) or not record.in_sync_replicas:
            raise InvariantViolation(f"{name(key)}: of the replicas {record.replicas} {record.in_sync_replicas} is ISR")
        if record.leader != NO_LEADER and record.leader not in record.in_sync_replicas:
            raise InvariantViolation(f"{name(key)}: {record.leader} leads, in sync is {record.in_sync_replicas}")
        if record.leader != NO_LEADER and (record.leader, record.leader_broker_epoch) not in self._registrations:
            raise InvariantViolation(
                f"{name(key)}: {record.leader} is elected dead, it never was of that epoch: {record}"
            )
        before = self.current.get(key)
        if before is None:
            return
        if record.partition_epoch <= before.partition_epoch or record.leader_epoch < before.leader_epoch:
            raise InvariantViolation(f"I6: etcd has {name(key)} go from {before} back to {record}")
        was_led = (before.leader, before.leader_broker_epoch)
        has_new_leader = (record.leader, record.leader_broker_epoch) != was_led
        has_lost_a_replica = not set(before.replicas) <= set(record.replicas)
        if (has_new_leader or has_lost_a_replica) != (record.leader_epoch > before.leader_epoch):
            raise InvariantViolation(f"I6: {name(key)}: a leader epoch is a leader's: {before}, then {record}")

    def _is_unclean(self, key: Partition, before: PartitionRecord | None, record: PartitionRecord) -> bool:
        if before is None or record.leader == NO_LEADER:
            return False
        if record.leader in (*before.in_sync_replicas, *before.eligible_leader_replicas):
            return False
        was_moving = before.adding_replicas or before.removing_replicas
        if was_moving and not (record.adding_replicas or record.removing_replicas or record.leader_recovering):
            return False  # The move has ended: who leads came into the ISR with the same change, and has everything.
        topic = self.topics.get(key[0])
        is_asked = topic is not None and topic.topic in self.unclean_is_asked
        if not is_asked and (topic is None or topic.configs.get(UNCLEAN) != "true"):
            raise InvariantViolation(f"{name(key)}: {record.leader} is elected unclean after {before}")
        self.unclean_elections += 1
        return True

    def ids_of(self, topic: str) -> list[bytes]:
        """Of all topics that have ever had this name, the oldest first."""
        return self._ids.get(topic, [])

    @property
    def existing(self) -> dict[Partition, PartitionRecord]:
        """Of the topics that are there now."""
        return {key: record for key, record in self.current.items() if key[0] not in self.deleted}

    def _existing_with_min_isr(self) -> Iterator[tuple[Partition, PartitionRecord, int]]:
        for key, record in self.existing.items():
            # A creation that is under way writes partitions first, and their topic last.
            topic = self.topics.get(key[0])
            if topic is not None:
                yield key, record, int(topic.configs.get(MIN_ISR, "1"))

    def min_isr(self, key: Partition) -> int:
        """So many disks have every committed record, at least."""
        record = self.current.get(key)
        replicas = len(record.replicas) - len(record.adding_replicas) if record is not None else 1
        return min(replicas, self._min_isr.get(key[0], 1))

    def record_of(self, key: Partition, leader_epoch: int) -> PartitionRecord | None:
        """The last one under this leader epoch."""
        return self._by_leader_epoch.get((key, leader_epoch))

    def record_at(self, key: Partition, leader_epoch: int, partition_epoch: int) -> PartitionRecord | None:
        return self._by_epochs.get((key, leader_epoch, partition_epoch))
