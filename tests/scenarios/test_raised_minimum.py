"""A higher `min.insync.replicas` that the leader has not heard of."""

from __future__ import annotations

from barnabas.cluster.messages import AlterConfigsRequest, AlterConfigsResource, ConfigChange
from tests.scenarios.scene import TOPIC, Scene
from tests.sim.protocols import Call
from tests.sim.topology import MIN_ISR


class Caller:
    """In the place of a gateway's end of a stream."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def send(self, message: object) -> None:
        self.told.append(message)


def lose_control_stream(scene: Scene, node_id: int) -> None:
    """Nothing comes to this logstore from the active controller any more; all else goes on."""
    (active,) = [each for each in scene.cluster.controllers if each.is_active]
    ((key, link),) = [(key, link) for key, link in active._links.items() if key[0] == node_id]
    link.send = lambda request: None  # type: ignore[method-assign]
    active._do(active.running.on_control_disconnected(*key, active.now_ms))


def raise_minimum(scene: Scene) -> None:
    (active,) = [each for each in scene.cluster.controllers if each.is_active]
    change = AlterConfigsResource(2, TOPIC, False, [ConfigChange(MIN_ISR, 0, "2")])
    caller = Caller()
    active.call(caller, Call(1, AlterConfigsRequest([change], 5_000)))  # type: ignore[arg-type]
    scene.until(lambda: caller.told, "the minimum is raised")


def test_a_leader_that_has_not_heard_of_a_raised_minimum_loses_nothing_that_it_acknowledges_alone() -> None:
    scene = Scene(logstores=2, configs={MIN_ISR: "1"}, replica_lag_ms_max=2_000).begin()
    leader, (follower,) = scene.leader, scene.followers
    scene.produce("one")
    scene.until_acknowledged()

    lose_control_stream(scene, scene.record.leader)
    raise_minimum(scene)
    scene.cut_off(follower, leader)
    scene.produce("two")
    scene.until_acknowledged()
    assert scene.in_sync == [leader], "it has gone on alone under the minimum of before"
    assert scene.record.eligible_leader_replicas == ()

    leader.kill()
    scene.reconnect()
    scene.wait(10_000)
    leader.start()
    scene.until(lambda: len(scene.in_sync) == 2, "both are in sync again")
    assert scene.read_everything() == ["one", "two"]
