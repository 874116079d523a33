"""Faults of the control plane, and what administrators do while clients write."""

from __future__ import annotations

from tests.faults.cluster import UnhealthyError
from tests.faults.machines import ETCD, LOGSTORES, MACHINES, broker_id
from tests.faults.stage import Stage
from tests.faults.topics import create_topic, delete_topic, elect_preferred_leaders, in_sync, reassign

CUT_SECONDS = 8.0
MOVE_SECONDS_MAX = 40.0
_NO_TOPIC_SECONDS_MAX = 30.0


def etcd_quorum_loss(stage: Stage, seconds: float) -> None:
    """Two of three members are dead: leaders may serve, and nothing is elected and no ISR changes."""
    victims = sorted(stage.chance.sample(ETCD, 2))
    before = stage.leaders()
    with stage.injected(f"kill -9 {', '.join(victims)}"):
        stage.cluster.kill(*victims)
        stage.hold(seconds)
        if (after := stage.leaders()) != before:
            raise UnhealthyError(f"leaders changed while etcd had no quorum: {before}, {after}")
        for victim in victims:
            stage.cluster.spawn(victim)


def leader_dies_without_quorum(stage: Stage, seconds: float) -> None:
    """No other can be elected until etcd is available again."""
    members = sorted(stage.chance.sample(ETCD, 2))
    victim = stage.leader()
    with stage.injected(f"kill -9 {', '.join(members)}, then {victim}"):
        stage.cluster.kill(*members)
        stage.hold(1.0)
        stage.cluster.kill(victim)
        stage.hold(seconds)
        for member in members:
            stage.cluster.spawn(member)
        stage.hold(2.0)
        stage.cluster.spawn(victim)


def delete_topic_while_leader_is_cut(stage: Stage) -> None:
    """Deleted and recreated under the same name, while one of its leaders can't be reached."""
    topic = f"{stage.topic}-deleted-{len(stage.injections)}"
    create_topic(stage.cluster.layout, topic, stage.partitions, {})
    stage.wait_until(lambda: in_sync(stage.cluster.layout, topic, stage.partitions), _NO_TOPIC_SECONDS_MAX)
    victim = stage.leader()
    with stage.injected(f"{topic} deleted while {victim} is cut off everybody", cut_off=[victim]):
        stage.network.cut_both(victim, MACHINES)
        stage.hold(1.0)
        delete_topic(stage.cluster.layout, topic)
        stage.hold(CUT_SECONDS)
        create_topic(stage.cluster.layout, topic, stage.partitions, {})
        stage.network.heal()
        stage.wait_until(lambda: in_sync(stage.cluster.layout, topic, stage.partitions), _NO_TOPIC_SECONDS_MAX)
        delete_topic(stage.cluster.layout, topic)


def preferred_election(stage: Stage) -> None:
    """A leader dies and returns; then those who are preferred are asked for, all at once."""
    victim = stage.leader()
    with stage.injected(f"kill -9 {victim}"):
        stage.cluster.kill(victim)
        stage.hold(2.0)
        stage.cluster.spawn(victim)
    with stage.injected("preferred leaders elected"):
        elect_preferred_leaders(stage.cluster.layout, stage.topic, range(stage.partitions))
        stage.hold(1.0)


def reassignment(stage: Stage) -> None:
    """Every partition gets another first replica, and leads there: leaders move around the ring."""
    brokers = [broker_id(logstore) for logstore in LOGSTORES]
    leaders = stage.leaders()
    turned = {}
    for partition, leader in leaders.items():
        first = (broker_id(leader) + 1) % len(brokers)
        turned[partition] = [first, *(broker for broker in brokers if broker != first)]
    with stage.injected("replicas reordered, preferred leaders elected"):
        reassign(stage.cluster.layout, stage.topic, turned)
        stage.hold(1.0)
        elect_preferred_leaders(stage.cluster.layout, stage.topic, range(stage.partitions))
        stage.hold(1.0)


def move_replicas(stage: Stage) -> None:
    """Each partition leaves its leader's logstore altogether, for two replicas, and comes back to three."""
    brokers = [broker_id(logstore) for logstore in LOGSTORES]
    leaders = {partition: broker_id(leader) for partition, leader in stage.leaders().items()}
    away = {partition: [each for each in brokers if each != leader] for partition, leader in leaders.items()}
    back = {partition: [leader, *away[partition]] for partition, leader in leaders.items()}
    with stage.injected("partitions moved off their leaders, and back"):
        reassign(stage.cluster.layout, stage.topic, away)
        stage.wait_until(lambda: _still_led_by(stage, leaders), MOVE_SECONDS_MAX)
        reassign(stage.cluster.layout, stage.topic, back)


def _still_led_by(stage: Stage, leaders: dict[int, int]) -> str | None:
    for partition, leader in stage.leaders().items():
        if leaders[partition] == broker_id(leader):
            return f"{stage.topic}-{partition} is still led by {leader}"
    return None
