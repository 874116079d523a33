"""Everything dies at once and comes back: no lease of a dead process is waited for, and no election of a living one is
taken away.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import ControllerRegistration, Keys, Role
from barnabas.ports.etcd import Get, KeyValue
from tests.sim.clients.producer import Behaviour
from tests.sim.cluster import Cluster
from tests.sim.network import Network
from tests.sim.nodes.etcd import EtcdClient
from tests.sim.nodes.registrar import OUTLIVE_MS_MAX, TTL_MS, Registrar
from tests.sim.process import Process
from tests.sim.scheduler import MS, SECOND, Scheduler
from tests.sim.topology import Shape, TopicShape
from tests.tiers import seeds

PARTITIONS = 3
DARK_US = 300 * MS
WRITES_AGAIN_US_MAX = 2 * SECOND
"""Far below the lease of 6 s that a dead process leaves, all of it, as etcd gives every lease its whole TTL again."""


def started(seed: int, controllers: int = 1) -> Cluster:
    producers = [Behaviour(idempotent=True, acks=-1, version=9, interval_us=20 * MS, records_max=3) for _ in range(2)]
    topics = {"orders": TopicShape(PARTITIONS)}
    shape = Shape(gateways=1, purgatories=1, controllers=controllers, topics=topics, producers=producers)
    cluster = Cluster(Scheduler(seed), shape)
    cluster.start()
    cluster.start_clients()
    cluster.run_for(2 * SECOND)
    return cluster


def servers(cluster: Cluster) -> list[Process]:
    return [process for process in cluster.processes if process not in cluster.clients]


def acknowledged(cluster: Cluster) -> list[int]:
    """Records so far, by partition."""
    return [len(cluster.history.of(key).acked) for key in sorted(cluster.promises.elections.existing)]


def election(cluster: Cluster) -> KeyValue | None:
    found = cluster.etcd.model.get(Get(Keys().election))
    return found[0] if found else None


@pytest.mark.parametrize("seed", seeds(range(1, 6), quick=1))
@pytest.mark.parametrize("controllers", [1, 2])
def test_after_a_blackout_no_lease_of_the_dead_is_waited_for(seed: int, controllers: int) -> None:
    cluster = started(seed, controllers)
    for process in servers(cluster):
        process.kill()
    cluster.run_for(DARK_US)
    before = acknowledged(cluster)
    for process in servers(cluster):
        process.start()
    cluster.wait_until(
        lambda: all(now > then for now, then in zip(acknowledged(cluster), before, strict=True)),
        "every partition takes a write after the blackout",
        WRITES_AGAIN_US_MAX,
    )
    cluster.settle()


class Twin(Process):
    """A second process with the id of a controller, somewhere else."""

    registered = False

    def boot(self) -> None:
        etcd = EtcdClient(self)
        address = f"{self.name}:ops"
        Registrar(
            etcd,
            Role.CONTROLLER,
            "controller-0",
            lambda incarnation: ControllerRegistration("controller-0", incarnation, address),
            on_registered=lambda epoch: setattr(self, "registered", True),
        )

    def turn(self) -> None:
        pass


def twin_of(cluster: Cluster) -> Twin:
    network: Network = cluster.network
    return Twin("twin", cluster.scheduler, network)


def test_a_living_twin_keeps_its_election() -> None:
    """Its address accepts connections, so its lease decides, and that is renewed: the second process ends."""
    cluster = started(1)
    held = election(cluster)
    twin = twin_of(cluster)
    twin.start()
    cluster.run_for((OUTLIVE_MS_MAX + 2000) * MS)
    assert election(cluster) == held
    assert cluster.controllers[0].is_active
    assert not twin.registered
    assert not twin.alive


def test_a_paused_twin_keeps_its_election_for_as_long_as_its_lease_lasts() -> None:
    """Nothing that is certain tells a process that is paused from one that is slow."""
    cluster = started(1)
    held = election(cluster)
    cluster.controllers[0].pause()
    twin = twin_of(cluster)
    twin.start()
    cluster.run_for(TTL_MS // 2 * MS)
    assert election(cluster) == held
    assert not twin.registered
