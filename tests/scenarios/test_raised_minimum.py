"""A higher `min.insync.replicas` that the leader has not heard of."""

from __future__ import annotations

from barnabas.cluster.messages import AlterConfigsRequest, AlterConfigsResource, ConfigChange, ControlRequest
from barnabas.wire.errors import ErrorCode
from tests.scenarios.scene import TOPIC, Scene
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.protocols import Call
from tests.sim.topology import MIN_ISR


class Caller:
    """In the place of a gateway's end of a stream."""

    def __init__(self) -> None:
        self.reported: list[object] = []

    def send(self, message: object) -> None:
        self.reported.append(message)


def lose_control_stream(scene: Scene, node_id: int) -> None:
    """Nothing comes to this logstore from the active controller any more; all else goes on."""
    (active,) = [each for each in scene.cluster.controllers if each.is_active]
    ((key, link),) = [(key, link) for key, link in active._links.items() if key[0] == node_id]
    link.send = lambda request: None  # type: ignore[method-assign]
    active.running.on_control_disconnected(*key, active.now_ms)
    active._carry_out()


def raise_minimum(scene: Scene) -> None:
    alter(scene, AlterConfigsResource(2, TOPIC, False, [ConfigChange(MIN_ISR, 0, "2")]))


def alter(scene: Scene, change: AlterConfigsResource) -> None:
    (active,) = [each for each in scene.cluster.controllers if each.is_active]
    caller = Caller()
    active.call(caller, Call(1, AlterConfigsRequest([change], 5_000)))  # type: ignore[arg-type]
    scene.until(lambda: caller.reported, "the minimum is raised")


def test_a_leader_that_has_not_heard_of_a_raised_minimum_acknowledges_nothing_alone() -> None:
    scene = Scene(logstores=2, configs={MIN_ISR: "1"}, replica_lag_ms_max=2_000).begin()
    leader, (follower,) = scene.leader, scene.followers
    scene.produce("one")
    scene.until_acknowledged()

    lose_control_stream(scene, scene.record.leader)
    raise_minimum(scene)
    scene.cut_off(follower, leader)
    scene.produce("two")
    scene.wait(5_000)
    assert scene.acknowledged == ["one"], "the minimum of before would let it through"
    assert scene.in_sync == [leader, follower]

    leader.kill()
    scene.reconnect()
    scene.wait(10_000)
    assert scene.record.leader == follower.node_id
    leader.start()
    scene.until(lambda: len(scene.in_sync) == 2, "both are in sync again")
    scene.until_acknowledged()
    assert scene.read_everything() == ["one", "two"]


def raise_minimum_of_all_brokers(scene: Scene) -> None:
    alter(scene, AlterConfigsResource(4, "", False, [ConfigChange(MIN_ISR, 0, "2")]))


def withhold_metadata(leader: LogstoreNode) -> None:
    """No UpdateMetadata reaches this logstore: its control stream is slow behind the LeaderAndIsr."""
    command = leader.command

    def only_leadership(session_id: int, request: ControlRequest) -> None:
        if request.update_metadata is None:
            command(session_id, request)

    leader.command = only_leadership  # type: ignore[method-assign]


def test_a_leader_that_restarts_goes_by_the_raised_minimum_before_its_first_metadata() -> None:
    """Of a cluster-wide minimum its own configuration says nothing."""
    scene = Scene(logstores=2, configs={}).begin()
    leader, (follower,) = scene.leader, scene.followers
    scene.produce("one")
    scene.until_acknowledged()
    raise_minimum_of_all_brokers(scene)

    follower.kill()
    scene.until(lambda: scene.in_sync == [leader], "the follower has left the ISR")
    assert scene.record.eligible_leader_replicas == (follower.node_id,)
    leader.kill()
    scene.wait(500)
    withhold_metadata(leader)
    leader.start()
    scene.until(lambda: leader.partitions and scene.partition_at(leader).leading, "the leader leads again")
    reported: list[ErrorCode] = []
    scene.listen_to_refusals(reported)
    scene.produce("two")
    scene.until(lambda: reported or not scene.producer.has_open_batches, "the second record is answered")
    assert reported, "it may not be acknowledged by one replica alone: the other is eligible to lead"
    assert scene.partition_at(leader).in_sync_replicas_min == 2

    del leader.command
    follower.start()
    scene.until_acknowledged()
    assert scene.read_everything() == ["one", "two"]
