"""Random histories: crashes, restarts, takeovers, lost answers. What has to hold, holds after each step."""

from __future__ import annotations

import random

import pytest

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import (
    ALL_BROKERS,
    NO_LEADER,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsResponse,
    AlterPartitionRequest,
    AlterReassignmentsRequest,
    ControlledShutdownRequest,
    ElectLeadersRequest,
    IsrChange,
    IsrMember,
    NewTopic,
    Reassignment,
)
from barnabas.ports.etcd import Snapshot, Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.image import ControllerImage
from tests.sim.etcd_model import Fate
from tests.tiers import seeds
from tests.unit.controller.cluster import (
    BROKER,
    KEYS,
    LEASE_MS,
    TOPIC,
    Cluster,
    ControllerNode,
    alter,
    create,
    delete,
    grow,
    to_set,
)

LOGSTORES = (1, 2, 3)
TOPICS = ("a", "b", "c", "d")
# Resource type, name and key.
SETTINGS = [
    *((TOPIC, topic, key) for topic in TOPICS for key in ("segment.bytes", "min.insync.replicas")),
    *((BROKER, name, key) for name in ("", "1", "2") for key in ("log.segment.bytes", "log.retention.ms")),
]


class History:
    def __init__(self, seed: int, kinds: list[int]) -> None:
        """`kinds`: what happens, by the numbers in `step`."""
        self.rng = random.Random(seed)
        self.kinds = kinds
        self.cluster = Cluster(self.fate)
        self.cluster.controller("controller-0")
        self.cluster.controller("controller-1")
        for node_id in LOGSTORES:
            self.cluster.logstore(node_id)
        # By topic id, partition and leader epoch: who led.
        self.leaders: dict[tuple[bytes, int, int], int] = {}
        self.newest: dict[tuple[bytes, int], PartitionRecord] = {}
        # By topic id, partition and leader epoch: the registration that got the command to lead.
        self.reported: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        self.controller_epoch = 0
        self.alterations = 0
        # By controller and request: resource type, name, key, value.
        self.altered: dict[tuple[int, int], tuple[int, str, str, int]] = {}
        # By a broker's name and key: the newest value that was acknowledged.
        self.acknowledged: dict[tuple[str, str], int] = {}
        # Txns that got lost, and may yet arrive.
        self.late: list[Txn] = []

    def fate(self, txn: Txn) -> Fate:
        fate = self.rng.choices(list(Fate), [8, 1, 1])[0]
        if fate is Fate.LOST:
            self.late.append(txn)
        return fate

    def step(self) -> None:
        cluster, rng = self.cluster, self.rng
        controller = rng.choice(cluster.controllers)
        node_id = rng.choice(LOGSTORES)
        match rng.choice(self.kinds):
            case 0 | 1:
                topic = NewTopic(rng.choice(TOPICS), rng.choice([1, 3, 501]), rng.choice([1, 2, 3]))
                controller.request(create(topic, timeout_ms=rng.choice([0, 300, 5000])))
            case 2:
                controller.request(delete(rng.choice(TOPICS)))
            case 3:
                controller.request(AllocateProducerIdsRequest("gateway-0"))
            case 4 if cluster.logstores[node_id].alive:
                rng.choice([cluster.crash, cluster.stop])(node_id)
            case 4 | 5:
                cluster.crash(node_id)
                cluster.logstore(node_id, may_lack_records=rng.random() < 0.3)
            case 6:
                # Cut off for longer than its lease, or not.
                controller.cut_off = True
                cluster.advance(rng.choice([100, LEASE_MS + 1000]), step_ms=500)
                self.heal()
            case 7 if self.late:
                txn = self.late.pop(rng.randrange(len(self.late)))
                cluster.fate = lambda txn: Fate.ANSWERED
                cluster.etcd.txn(txn)
                cluster.fate = self.fate
            case 7 | 8:
                for node in cluster.controllers:
                    node.step()
            case 9:
                self.alter(controller, *rng.choice(SETTINGS))
            case 10:
                growth = (rng.choice(TOPICS), rng.choice([2, 4, 700, 1100]))
                controller.request(grow(growth, timeout_ms=rng.choice([0, 300, 5000])))
            case 11:
                self.ask_for_isrs(controller, node_id)
            case 12:
                kind, timeout_ms = rng.choice([0, 1]), rng.choice([0, 300, 5000])
                controller.request(ElectLeadersRequest(kind, True, [], timeout_ms))
            case 13:
                target = rng.sample(LOGSTORES, rng.randrange(len(LOGSTORES) + 1))
                moves = [Reassignment(topic, rng.randrange(3), target) for topic in TOPICS]
                controller.request(AlterReassignmentsRequest(moves, rng.choice([0, 300, 5000])))
            case 14:
                controller.request(ControlledShutdownRequest(node_id, cluster.logstores[node_id].broker_epoch))
            case _:
                cluster.advance(rng.choice([100, 1000]))
        self.check()

    def ask_for_isrs(self, controller: ControllerNode, node_id: int) -> None:
        """A leader's word on some of its partitions, by its last command; members are as it last saw them."""
        rng, logstores = self.rng, self.cluster.logstores
        changes = []
        for (topic_id, number), reported in logstores[node_id].partitions.items():
            if reported.leader == node_id and rng.random() < 0.7:
                members = [each for each in reported.replicas if each == node_id or rng.random() < 0.7]
                epochs = [logstores[each].broker_epoch - (rng.random() < 0.03) for each in members]
                in_sync = [IsrMember(*each) for each in zip(members, epochs, strict=True)]
                recovered = reported.leader_recovering and rng.random() < 0.5
                changes.append(
                    IsrChange(topic_id, number, reported.leader_epoch, reported.partition_epoch, in_sync, recovered)
                )
        controller.request(AlterPartitionRequest(node_id, logstores[node_id].broker_epoch, changes))

    def alter(self, controller: ControllerNode, resource_type: int, name: str, key: str) -> None:
        """Every change sets another value, so that the present ones can be identified."""
        self.alterations += 1
        request = alter(name, to_set(key, str(2_000_000 + self.alterations)), resource_type=resource_type)
        request_id = controller.request(request)
        self.altered[id(controller), request_id] = (resource_type, name, key, 2_000_000 + self.alterations)

    def heal(self) -> None:
        cluster = self.cluster
        for controller in cluster.controllers:
            controller.cut_off = False
            if not cluster.etcd.keep_alive(controller.lease):
                controller.lease = cluster.etcd.grant(LEASE_MS)
            controller.renew()

    def reloaded(self) -> ControllerImage:
        (snapshot,) = self.cluster.etcd.watch(KEYS.prefix).take()
        assert isinstance(snapshot, Snapshot)
        image = ControllerImage(KEYS)
        image.load(snapshot)
        return image

    def check(self) -> None:
        image = self.reloaded()
        assert image.unreadable == {}
        assert image.controller_epoch >= self.controller_epoch, "the controller epoch is monotone"
        self.controller_epoch = image.controller_epoch
        for topic_id in image.chunks:
            for number, partition in image.partitions(topic_id):
                self.check_partition(topic_id, number, partition)
        for controller in self.cluster.controllers:
            if controller.core.image.revision == image.revision:
                assert state(controller.core.image) == state(image), "the image is what a reload gives"
        for topic in image.topics.values():
            assert len(list(image.partitions(topic.topic_id))) == topic.partitions, "a committed topic is whole"
        self.check_configs(image)
        for logstore in self.cluster.logstores.values():
            for (topic_id, number), reported in logstore.partitions.items():
                if reported.leader == logstore.node_id:
                    registration = (logstore.node_id, logstore.broker_epoch)
                    first = self.reported.setdefault((topic_id, number, reported.leader_epoch), registration)
                    assert first == registration, "a restarted leader leads under another epoch"

    def check_configs(self, image: ControllerImage) -> None:
        """What was acknowledged is there, unless a later change of the same key or a deletion took its place."""
        for controller in self.cluster.controllers:
            for request_id, response in controller.responses.items():
                change = self.altered.pop((id(controller), request_id), None)
                if change is None or not isinstance(response, AlterConfigsResponse):
                    continue
                resource_type, name, key, value = change
                if response.results[0].error_code == ErrorCode.NONE and resource_type == BROKER:
                    known = self.acknowledged.get((name, key), 0)
                    self.acknowledged[name, key] = max(known, value)
        for (name, key), value in self.acknowledged.items():
            record = image.broker_configs[int(name) if name else ALL_BROKERS]
            assert int(record.configs[key]) >= value, "an acknowledged change is never lost"

    def check_partition(self, topic_id: bytes, number: int, partition: PartitionRecord) -> None:
        before = self.newest.get((topic_id, number), partition)
        assert partition.leader_epoch >= before.leader_epoch
        assert partition.partition_epoch >= before.partition_epoch
        if (partition.leader, partition.leader_broker_epoch) != (before.leader, before.leader_broker_epoch):
            assert partition.leader_epoch > before.leader_epoch, "another leader is another epoch"
        assert partition.in_sync_replicas
        assert set(partition.in_sync_replicas) <= set(partition.replicas)
        assert partition.leader in (NO_LEADER, *partition.in_sync_replicas)
        assert set(partition.eligible_leader_replicas) <= set(partition.replicas).difference(partition.in_sync_replicas)
        self.newest[topic_id, number] = partition
        key = (topic_id, number, partition.leader_epoch)
        assert self.leaders.setdefault(key, partition.leader) == partition.leader, "one leader per epoch"

    def end(self) -> None:
        """Every process is back and no answer is lost any more: the cluster becomes whole."""
        cluster = self.cluster
        cluster.fate = lambda txn: Fate.ANSWERED
        self.heal()
        for node_id in LOGSTORES:
            # Who was about to stop does.
            cluster.logstore(node_id)
        cluster.advance(2 * LEASE_MS, step_ms=500)
        self.check()
        (active,) = [controller for controller in cluster.controllers if controller.is_active()]
        image = active.core.image
        assert image.deletions == {}
        assert image.unclaimed_chunks() == []
        for topic in image.topics.values():
            for number, partition in image.partitions(topic.topic_id):
                assert partition.leader != NO_LEADER
                key = (topic.topic_id, number)
                reported = {
                    node_id: each.partitions[key]
                    for node_id, each in cluster.logstores.items()
                    if key in each.partitions
                }
                assert set(reported) == set(partition.replicas), "every replica knows of it, and no other logstore"
                state_reported = {(each.leader, each.leader_epoch, each.partition_epoch) for each in reported.values()}
                assert state_reported == {(partition.leader, partition.leader_epoch, partition.partition_epoch)}
        for controller in cluster.controllers:
            assert set(controller.responses) == set(range(1, controller.last_id + 1)), "every request is answered"
        blocks = [
            response.first_producer_id
            for controller in cluster.controllers
            for response in controller.responses.values()
            if isinstance(response, AllocateProducerIdsResponse) and response.length
        ]
        assert len(set(blocks)) == len(blocks), "no producer id is given twice"


def state(image: ControllerImage) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(image).items()
        if name not in ("revision", "keys", "_directories", "replica_counts")
    }


@pytest.mark.parametrize("seed", seeds(range(40), quick=8))
def test_a_random_history_keeps_the_invariants(seed: int) -> None:
    history = History(seed, list(range(18)))
    for _ in range(60):
        history.step()
    history.end()


@pytest.mark.parametrize("seed", seeds(range(40), quick=8))
def test_a_random_history_of_replicas_keeps_the_invariants(seed: int) -> None:
    history = History(seed, [4, 5, 6, 7, 8, 9, *[11] * 10, 12, 13, 13, 14, *[15] * 8])
    configs = {"min.insync.replicas": "2", "unclean.leader.election.enable": "true" if seed % 4 == 0 else "false"}
    history.cluster.advance(100)
    history.cluster.controllers[0].request(create(*[NewTopic(topic, 3, 3, configs=configs) for topic in TOPICS]))
    history.cluster.advance(1000)
    for _ in range(80):
        history.step()
    history.end()
