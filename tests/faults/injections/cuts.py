"""Links that lose everything, in one direction or in both, and links that are thin."""

from __future__ import annotations

from collections.abc import Iterable

from tests.faults.injections.crashes import Choice
from tests.faults.machines import CLIENTS, CONTROLLERS, ETCD, GATEWAYS, LOGSTORES, MACHINES
from tests.faults.stage import Stage

CUT_SECONDS = 12.0
"""Twice a lease."""
_FLAPS = 12
_THIN_KILOBITS_PER_SECOND = 512


def isolate(stage: Stage, whom: Choice) -> None:
    """It receives from none, and none receives from it."""
    victims = whom(stage)
    with stage.injected(f"cut {', '.join(victims)} off everybody", cut_off=victims):
        for victim in victims:
            stage.network.cut_both(victim, MACHINES)
        _hold_and_heal(stage)


def mute(stage: Stage, whom: Choice) -> None:
    """It receives from all, and none receives from it."""
    (victim,) = whom(stage)
    with stage.injected(f"cut what {victim} sends", cut_off=[victim]):
        for peer in _peers(victim, MACHINES):
            stage.network.cut(victim, peer)
        _hold_and_heal(stage)


def deafen(stage: Stage, whom: Choice) -> None:
    """It receives from none, and all receive from it."""
    (victim,) = whom(stage)
    with stage.injected(f"cut what is sent to {victim}", cut_off=[victim]):
        for peer in _peers(victim, MACHINES):
            stage.network.cut(peer, victim)
        _hold_and_heal(stage)


def bridge(stage: Stage) -> None:
    """A leader and one of its followers don't see each other; the third logstore and all other
    processes see both.
    """
    leader = stage.leader()
    follower = stage.chance.choice(stage.others(leader))
    with stage.injected(f"cut {leader} from {follower}"):
        stage.network.cut_both(leader, [follower])
        _hold_and_heal(stage)


def deaf_follower(stage: Stage) -> None:
    """The leader hears the follower's fetches, and its answers are lost."""
    leader = stage.leader()
    follower = stage.chance.choice(stage.others(leader))
    with stage.injected(f"cut what {leader} sends to {follower}"):
        stage.network.cut(leader, follower)
        _hold_and_heal(stage)


def leader_from_followers(stage: Stage) -> None:
    """The leader keeps its lease and its clients: only it can report that it has no followers."""
    leader = stage.leader()
    with stage.injected(f"cut {leader} from the other logstores"):
        stage.network.cut_both(leader, stage.others(leader))
        _hold_and_heal(stage)


def leader_from_control(stage: Stage) -> None:
    """It loses its lease while its followers and clients reach it as ever."""
    leader = stage.leader()
    _cut_from(stage, leader, [*ETCD, *CONTROLLERS])


def controller_from_etcd(stage: Stage) -> None:
    """The active one hears its logstores, and may write nothing."""
    _cut_from(stage, stage.cluster.active_controller(), ETCD)


def controller_from_leader(stage: Stage) -> None:
    """Commands do not come through, while the logstore's lease lives."""
    _cut_from(stage, stage.cluster.active_controller(), [stage.leader()])


def gateway_from_leader(stage: Stage) -> None:
    """One gateway does not reach a leader that is well: its clients wait, those of the other one don't notice."""
    _cut_from(stage, stage.chance.choice(GATEWAYS), [stage.leader()])


def gateway_from_control(stage: Stage) -> None:
    """It serves what it knows."""
    _cut_from(stage, stage.chance.choice(GATEWAYS), [*ETCD, *CONTROLLERS])


def clients_from_gateway(stage: Stage) -> None:
    """They go to the other one."""
    _cut_from(stage, stage.chance.choice(GATEWAYS), [CLIENTS])


def purgatory_from_logstores(stage: Stage, whom: Choice) -> None:
    """What is parked there hears of no watermark any more."""
    (victim,) = whom(stage)
    _cut_from(stage, victim, LOGSTORES)


def etcd_leader_from_members(stage: Stage) -> None:
    """The members elect another one; who is connected to the old one has to find that out."""
    _cut_from(stage, stage.cluster.etcd_leader(), ETCD)


def rack(stage: Stage) -> None:
    """A rack goes dark to the others: a leader, the active controller, etcd's leader, a gateway and a purgatory pod.

    They see each other; the clients are with the majority.
    """
    inside = [
        stage.leader(),
        stage.cluster.active_controller(),
        stage.cluster.etcd_leader(),
        "gateway-0",
        "purgatory-0",
    ]
    with stage.injected(f"cut the rack of {', '.join(inside)}", cut_off=inside):
        for machine in inside:
            stage.network.cut_both(machine, [other for other in MACHINES if other not in inside])
        _hold_and_heal(stage)


def flap(stage: Stage, whom: Choice) -> None:
    """Every second the link is lost for 200 to 800 ms: TCP makes up for it, heartbeats mostly come in time."""
    (victim,) = whom(stage)
    with stage.injected(f"flapping link of {victim}"):
        for _ in range(_FLAPS):
            lost_seconds = stage.chance.uniform(0.2, 0.8)
            stage.network.cut_both(victim, MACHINES)
            stage.hold(lost_seconds)
            stage.network.heal()
            stage.hold(1 - lost_seconds)


def thin_line(stage: Stage, whom: Choice) -> None:
    """What it sends waits in line; some of it is dropped."""
    (victim,) = whom(stage)
    with stage.injected(f"{_THIN_KILOBITS_PER_SECOND} kbit/s for what {victim} sends"):
        stage.network.slow(victim, _THIN_KILOBITS_PER_SECOND)
        _hold_and_heal(stage)


def _cut_from(stage: Stage, machine: str, peers: Iterable[str]) -> None:
    peers = _peers(machine, peers)
    with stage.injected(f"cut {machine} from {', '.join(peers)}"):
        stage.network.cut_both(machine, peers)
        _hold_and_heal(stage)


def _hold_and_heal(stage: Stage) -> None:
    stage.hold(CUT_SECONDS)
    stage.network.heal()


def _peers(machine: str, machines: Iterable[str]) -> list[str]:
    return [peer for peer in machines if peer != machine]
