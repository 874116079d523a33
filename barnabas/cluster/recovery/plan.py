"""Plan what to write to etcd: from a backup, from what the disks hold, or from both. Pure: it writes nothing.

- Topics are those that have logs: one that was created after the backup exists again, one that was deleted after it is
  not. Their configs are those of the backup or of the register in every log directory, whichever is later; if neither
  has the topic, nothing of it is deleted until an operator has set its configs (`HELD_CONFIGS`).
- The leader of a partition has the longest log of the latest epoch (`partitions.recover_partition`).
- Counters continue past everything that may have been assigned: leader epochs and the controller epoch past those of
  backup and logs, producer ids far past the known ones. Broker epochs are revisions of etcd, which may be smaller from
  now on: they are only ever compared for equality, and no record that is written contains one. Metadata is ordered by
  controller epoch first, and by revision only within it.
- Registrations belong to processes, which write them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from barnabas.cluster.inspection import KnownTopic, NodeInspection
from barnabas.cluster.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.cluster.keys import (
    PARTITIONS_PER_CHUNK,
    TOPIC_PARTITIONS_MAX,
    BrokerConfigsRecord,
    ClusterRecord,
    ControllerEpochRecord,
    Keys,
    MemberRecord,
    PartitionChunk,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    Role,
    TopicRecord,
    encode_record,
)
from barnabas.cluster.recovery.found import Found, gather
from barnabas.cluster.recovery.partitions import EPOCHS_SKIPPED, Loss, recover_partition
from barnabas.cluster.recovery.remembered import PARTITIONS_MAX, Remembered
from barnabas.cluster.topic_config import TopicConfig

PRODUCER_IDS_SKIPPED: Final = 2**32
"""How far to go past the largest known id: a producer that has an id and has not written yet is in no log. Every
controller epoch has as many of its own, below 2^53 for two million epochs.
"""

HELD_CONFIGS: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""For a topic whose configs are unknown: by the defaults, its old records would be deleted within minutes."""

_INTERNAL_TOPIC_CONFIGS: Final = {
    OFFSETS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 * 1024 * 1024),
    },
    TRANSACTION_STATE_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": str(100 * 1024 * 1024),
        "unclean.leader.election.enable": "false",
    },
}


@dataclass(slots=True)
class Plan:
    """`writes` are keys and values in the order in which they are written; a reader that sees only some of them never
    sees topics without partitions.
    """

    cluster_id: str = ""
    writes: dict[str, bytes] = field(default_factory=dict)
    topics: list[TopicRecord] = field(default_factory=list)
    partitions: dict[str, list[PartitionRecord]] = field(default_factory=dict)
    # Nothing may be written until these are resolved.
    conflicts: list[str] = field(default_factory=list)
    # Acknowledged records that may be missing afterwards: the operator has to agree.
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan_recovery(
    keys: Keys,
    remembered: Remembered,
    inspections: Sequence[NodeInspection],
    *,
    absent: frozenset[int] = frozenset(),
    picked_topic_ids: Mapping[str, bytes],
    wall_ms: int,
) -> Plan:
    """`absent`: logstores that the operator leaves out. `picked_topic_ids`: the choice between topics of one name."""
    return _Planning(keys, remembered, gather(inspections), absent, picked_topic_ids, wall_ms).plan()


class _Planning:
    def __init__(
        self,
        keys: Keys,
        remembered: Remembered,
        found: Found,
        absent: frozenset[int],
        picked_topic_ids: Mapping[str, bytes],
        wall_ms: int,
    ) -> None:
        self._keys = keys
        self._remembered = remembered
        self._found = found
        self._absent = absent
        self._picked = picked_topic_ids
        self._wall_ms = wall_ms
        self._known_topics = found.known_topics()
        self._plan = Plan(conflicts=list(found.conflicts), notes=[*remembered.problems, *found.notes])

    def plan(self) -> Plan:
        plan = self._plan
        plan.cluster_id = self._cluster_id()
        self._check_nodes()
        topics = self._topics()
        if not self._has_room_for(topics):
            return plan
        for topic in topics:
            self._recover(topic)
        self._carry_over_deletions()
        self._write_the_rest()
        for topic in plan.topics:
            self._put(self._keys.topic(topic.topic), topic)
        self._put(self._keys.cluster, ClusterRecord(plan.cluster_id))
        return plan

    def _put(self, key: str, record: Record) -> None:
        self._plan.writes[key] = encode_record(record)

    def _cluster_id(self) -> str:
        ids = [*self._found.cluster_ids]
        remembered = self._remembered.cluster_id
        if remembered and ids and ids != [remembered]:
            self._plan.conflicts.append(
                f"the backup is of cluster {remembered}, the directories of {', '.join(ids)}; the clusters differ"
            )
        if not remembered and not ids:
            self._plan.conflicts.append("there is neither a backup with a cluster id nor a log directory")
        return remembered or (ids[0] if ids else "")

    def _check_nodes(self) -> None:
        register = self._found.register
        expected = self._remembered.node_ids() | (set() if register is None else set(register.node_ids))
        for node_id in sorted(expected - self._found.node_ids - self._absent):
            self._plan.conflicts.append(
                f"logstore {node_id} belongs to the cluster and was not inspected: inspect its log directories too, or "
                f"leave out what only it has: --without-node {node_id}"
            )
        for node_id in sorted(self._found.node_ids & self._absent):
            self._plan.conflicts.append(
                f"--without-node {node_id} contradicts the inspection of that logstore: drop one of them"
            )

    # --- topics ---

    def _topics(self) -> list[TopicRecord]:
        known = {each.topic for each in self._known_topics.values()}
        names = sorted({*self._found.topic_ids, *self._remembered.topics, *known})
        topics = [self._topic(name) for name in names]
        return [topic for topic in topics if topic is not None]

    def _has_room_for(self, topics: Sequence[TopicRecord]) -> bool:
        """A number in one directory's name can be two billion partitions."""
        planned = sum([topic.partitions for topic in topics])
        most = max(topics, key=lambda topic: topic.partitions, default=None)
        if most is None or (planned <= PARTITIONS_MAX and most.partitions <= TOPIC_PARTITIONS_MAX):
            return True
        self._plan.conflicts.append(
            f"there would be {planned} partitions, {most.partitions} of them {most.topic}'s, and {PARTITIONS_MAX} "
            f"({TOPIC_PARTITIONS_MAX} of one topic) are the most that a recovery plans: move away the directories of "
            "partitions that can't be"
        )
        return False

    def _topic(self, name: str) -> TopicRecord | None:
        remembered = self._remembered.topics.get(name)
        deletions = self._remembered.deletions
        ids = [topic_id for topic_id in self._found.topic_ids.get(name, []) if topic_id not in deletions]
        if name in self._picked:
            if self._picked[name] not in ids:
                self._plan.conflicts.append(f"--topic-id {name}: no log has the id {self._picked[name].hex()}")
            ids = [self._picked[name]]
        if len(ids) > 1:
            self._plan.conflicts.append(self._several_ids(name, ids))
            return None
        if not ids:
            return self._without_logs(name, remembered)
        topic_id = ids[0]
        if remembered is not None and remembered.topic_id != topic_id:
            self._plan.notes.append(f"{name} was deleted and created again after the backup: the new topic is kept")
            remembered = None
        partitions = max(
            self._found.partitions[topic_id],
            0 if remembered is None else remembered.partitions,
            self._known_topics[topic_id].partitions if topic_id in self._known_topics else 0,
        )
        return TopicRecord(
            name, topic_id, partitions, self._replication_factor(topic_id, remembered), self._configs(topic_id, name)
        )

    def _several_ids(self, name: str, ids: Sequence[bytes]) -> str:
        reported = []
        for topic_id in ids:
            logs = [each for key, each in self._found.logs.items() if key[0] == topic_id]
            node_ids = sorted({node_id for each in logs for node_id in each})
            records = sum(max(log.log_end_offset - log.log_start_offset for log in each.values()) for each in logs)
            reported.append(f"{topic_id.hex()} on logstores {', '.join(map(str, node_ids))} with {records} offsets")
        return (
            f"there are {len(ids)} topics of the name {name}: {'; '.join(reported)}. One was deleted, and a logstore "
            f"has not heard of it: say which is meant (--topic-id {name}=ID); the others' directories will be set aside"
        )

    def _without_logs(self, name: str, remembered: TopicRecord | None) -> TopicRecord | None:
        """Topics in the backup or a register, and on no disk: deleted since, unless a logstore that was not inspected
        may have them, or a register later than the backup still lists them.
        """
        known = self._known_topics if self._is_register_later() else {}
        if remembered is None:
            if name in [each.topic for id_, each in known.items() if id_ not in self._remembered.deletions]:
                self._plan.losses.append(f"{name}: logstores know it, and no disk that was inspected has a log of it")
            return None
        partitions = self._remembered.partitions(remembered.topic_id)
        if any(node_id in self._absent for partition in partitions for node_id in partition.replicas):
            return replace(remembered, configs=self._configs(remembered.topic_id, remembered.topic))
        if remembered.topic_id in known:
            return remembered
        self._plan.notes.append(
            f"{remembered.topic} is in the backup and on no disk: it was deleted since, and is left out"
        )
        return None

    def _replication_factor(self, topic_id: bytes, remembered: TopicRecord | None) -> int:
        if remembered is not None:
            return remembered.replication_factor
        return max(len(logs) for key, logs in self._found.logs.items() if key[0] == topic_id)

    def _configs(self, topic_id: bytes, name: str) -> dict[str, str]:
        remembered = self._remembered.topics.get(name)
        if remembered is not None and remembered.topic_id != topic_id:
            remembered = None
        known: KnownTopic | None = self._known_topics.get(topic_id)
        if known is not None and (remembered is None or self._is_register_later()):
            return known.configs
        if remembered is not None:
            return remembered.configs
        if name in _INTERNAL_TOPIC_CONFIGS:
            return dict(_INTERNAL_TOPIC_CONFIGS[name])
        self._plan.notes.append(
            f"{name}: its configs are unknown. Nothing of it is deleted until you have set them and removed "
            "retention.ms=-1 and retention.bytes=-1 (barnabas topics alter)"
        )
        return dict(HELD_CONFIGS)

    def _is_register_later(self) -> bool:
        register, remembered = self._found.register, self._remembered
        return register is not None and (register.controller_epoch, register.revision) > (
            remembered.controller_epoch,
            remembered.revision,
        )

    # --- partitions ---

    def _recover(self, topic: TopicRecord) -> None:
        remembered = self._remembered.partitions(topic.topic_id)
        config = TopicConfig.from_overrides(topic.configs)
        min_insync_replicas = 1 if isinstance(config, str) else config.min_insync_replicas
        partitions = []
        losses: dict[Loss, list[int]] = {}
        for number in range(topic.partitions):
            recovered = recover_partition(
                self._found.logs.get((topic.topic_id, number), {}),
                remembered[number] if number < len(remembered) else None,
                self._absent,
                fallback=self._in_turn(number),
                replication_factor=topic.replication_factor,
                min_insync_replicas=min_insync_replicas,
            )
            partitions.append(recovered.record)
            if recovered.loss is not Loss.NOTHING:
                losses.setdefault(recovered.loss, []).append(number)
        for loss, numbers in losses.items():
            self._plan.losses.append(f"{topic.topic}, partitions {_ranges(numbers)}: {loss.value}")
        self._plan.topics.append(topic)
        self._plan.partitions[topic.topic] = partitions
        for chunk, first in enumerate(range(0, len(partitions), PARTITIONS_PER_CHUNK)):
            of_chunk = tuple(partitions[first : first + PARTITIONS_PER_CHUNK])
            self._put(self._keys.chunk(topic.topic_id, chunk), PartitionChunk(topic.topic_id, chunk, of_chunk))

    def _in_turn(self, number: int) -> list[int]:
        node_ids = sorted(self._found.node_ids)
        turn = number % max(len(node_ids), 1)
        return node_ids[turn:] + node_ids[:turn]

    def _carry_over_deletions(self) -> None:
        """Topics whose deletion was in progress are still deleted."""
        for topic_id, deletion in self._remembered.deletions.items():
            for number, chunk in sorted(self._remembered.chunks.get(topic_id, {}).items()):
                self._put(self._keys.chunk(topic_id, number), chunk)
            self._put(self._keys.deletion(topic_id), deletion)

    # --- everything else ---

    def _write_the_rest(self) -> None:
        keys, remembered, register = self._keys, self._remembered, self._found.register
        for node_id in sorted({*self._found.node_ids, *remembered.logstores}):
            known = remembered.logstores.get(node_id)
            addresses = {} if known is None else known.addresses
            # An earlier broker epoch could equal one of a future registration by chance, and end its suspicion.
            member = MemberRecord(Role.LOGSTORE, str(node_id), addresses, down_since_ms=self._wall_ms)
            self._put(keys.member(Role.LOGSTORE, str(node_id)), member)
        broker_configs = remembered.broker_configs
        if register is not None and (not remembered.cluster_id or self._is_register_later()):
            broker_configs = register.broker_configs
        elif not remembered.cluster_id:
            self._plan.notes.append("dynamic broker configs are unknown: the defaults apply")
        for broker_id, configs in sorted(broker_configs.items()):
            self._put(keys.broker_configs(broker_id), BrokerConfigsRecord(broker_id, configs))
        for key, value in remembered.others.items():
            self._plan.writes[keys.prefix + key] = value
        known_epoch = max(remembered.controller_epoch, 0 if register is None else register.controller_epoch)
        controller_epoch = known_epoch + EPOCHS_SKIPPED
        self._put(keys.controller_epoch, ControllerEpochRecord(controller_epoch))
        # Ids that were assigned since the last recovery, and not written with, are in no log and no backup: the known
        # ones may date from then. The controller that assigned them has left its epoch in the registers; this is later.
        known_id = max(remembered.next_producer_id, self._found.producer_id_max + 1)
        next_producer_id = max(known_id + PRODUCER_IDS_SKIPPED, controller_epoch * PRODUCER_IDS_SKIPPED)
        self._put(keys.producer_ids, ProducerIdsRecord(next_producer_id))


def _ranges(numbers: Sequence[int]) -> str:
    """Format `0–3, 7`: ascending numbers, with runs joined."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
