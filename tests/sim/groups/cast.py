"""All groups of a run: their members, their administrators, and the comparison of answers with the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cluster.internal_topics import partition_of_group
from barnabas_logstore.core.coordinator.groups.group import Group
from tests.sim.clients.group_administrator import GroupAdministrator
from tests.sim.clients.group_member import GroupMember
from tests.sim.elections import Shortages
from tests.sim.groups.history import GroupHistory, Standing
from tests.sim.groups.shape import OFFSETS_PARTITIONS, OFFSETS_TOPIC, GroupShape, MemberBehaviour
from tests.sim.history import Partition as PartitionKey
from tests.sim.replica_logs import Batch

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.nodes.logstore import LogstoreNode


class Groups:
    """`members` are there from the start; of `twins`, one for each static member, one is there while the other one is
    taken for gone.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._elections = cluster.promises.elections
        self.shapes = cluster.shape.groups.groups
        self.history = GroupHistory(cluster.history)
        self.history.counts.groups = len(self.shapes)
        self.members: list[GroupMember] = []
        self.twins: list[GroupMember] = []
        for group in self.shapes:
            if group is cluster.shape.transactions.loop:
                continue  # its members are those of a loop
            for index, behaviour in enumerate(group.members):
                self._add(group, behaviour, f"member-{group.group_id[-1]}-{index}")
        administered = [each.group_id for each in self.shapes if each is not cluster.shape.transactions.loop]
        self._is_administered = bool(administered and cluster.shape.groups.administration_us)
        self.administrator = GroupAdministrator(
            "group-administrator",
            cluster.client_environment,
            cluster.shape.partition_counts,
            administered,
            cluster.shape.groups.administration_us,
            self.history,
        )
        self._watch()

    def _add(self, group: GroupShape, behaviour: MemberBehaviour, name: str) -> None:
        cluster = self._cluster
        instance_id = name if behaviour.is_static else None
        names = (name, f"{name}-again") if behaviour.is_static else (name,)
        made = [
            GroupMember(
                each,
                cluster.client_environment,
                cluster.shape.partition_counts,
                group,
                behaviour,
                instance_id,
                self.history,
            )
            for each in names
        ]
        self.members.append(made[0])
        if behaviour.is_static:
            made[0].twin, made[1].twin = made[1], made[0]
            self.twins.append(made[1])

    def add_members(self, members: Sequence[GroupMember]) -> None:
        """Of a loop, whose group is one of `shapes`."""
        self.members += members

    def _watch(self) -> None:
        cluster = self._cluster
        self.history.now_us = lambda: cluster.scheduler.now_us
        self.history.standing_of = self._standing_of
        self.history.shortages_of = self._shortages_of
        self.history.topic_is_deleted = lambda topic: any(
            topic_id in self._elections.deleted for topic_id in self._elections.ids_of(topic)
        )
        cluster.promises.committed.append(self._committed)
        cluster.promises.lost.append(self._lost)

    def start(self) -> None:
        for member in self.members:
            member.start()
        if self._is_administered:
            self.administrator.start()

    def members_of(self, group: GroupShape) -> list[GroupMember]:
        """Return the members that are alive."""
        return [each for each in (*self.members, *self.twins) if each.group is group and each.alive]

    # --- the log ------------------------------------------------------------------------------------------------------

    def _is_ours(self, key: PartitionKey) -> bool:
        return key[0] in self._elections.ids_of(OFFSETS_TOPIC)

    def _committed(self, key: PartitionKey, batches: list[Batch]) -> None:
        if self._is_ours(key):
            self.history.committed(key, batches)

    def _lost(self, key: PartitionKey, end: int) -> None:
        if self._is_ours(key):
            self.history.lost(key, end)

    # --- coordinators -------------------------------------------------------------------------------------------------

    def _key(self, partition: int) -> PartitionKey | None:
        topic_ids = self._elections.ids_of(OFFSETS_TOPIC)
        return (topic_ids[-1], partition) if topic_ids else None

    def offsets_key_of(self, group_id: str) -> PartitionKey:
        """Where its offsets are; the topic exists."""
        key = self._key(partition_of_group(group_id, OFFSETS_PARTITIONS))
        assert key is not None
        return key

    def _standing_of(self, partition: int) -> Standing:
        key = self._key(partition)
        record = self._elections.current.get(key) if key is not None else None
        if key is None or record is None:
            return Standing(-1, None)
        ends = []
        for node in self._cluster.logstores:
            replica = node.core._replicas.by_key.get(key) if node.core is not None else None
            if replica is not None and replica.leading and replica.leader_epoch < record.leader_epoch:
                ends.append(replica.high_watermark)
        return Standing(record.leader_epoch, min(ends, default=None))

    def _shortages_of(self, partition: int) -> Shortages:
        key = self._key(partition)
        return Shortages(0, 0) if key is None else self._elections.shortages_of(key)

    def coordinators(self) -> list[LogstoreNode]:
        """Those that live, by what etcd says."""
        keys = [self._key(partition) for partition in range(OFFSETS_PARTITIONS)]
        records = [self._elections.current.get(key) for key in keys if key is not None]
        leaders = dict.fromkeys(record.leader for record in records if record is not None)
        return [node for node in self._cluster.logstores if node.node_id in leaders and node.alive]

    def coordinated(self, group_id: str) -> Group | None:
        """What the coordinator has of a group, if there is one."""
        partition = partition_of_group(group_id, OFFSETS_PARTITIONS)
        for node in self.coordinators():
            led = node.core._coordination._groups.find(partition) if node.core is not None else None
            if led is not None:
                return led.shard.groups.get(group_id)
        return None
