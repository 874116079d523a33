"""A leader that is killed and comes back leads under a new epoch, and what it had acknowledged is still there."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas_purgatory.core.outputs import Outputs
from tests.scenarios.scene import Scene
from tests.sim.nodes.purgatory import PurgatoryNode


def test_what_was_acknowledged_is_there_after_kill_9() -> None:
    scene = Scene(acks=1, logstores=1).begin()
    (logstore,) = scene.cluster.logstores
    scene.produce("one")
    scene.until_acknowledged()
    (partition,) = logstore.partitions
    assert (partition.leading, partition.leader_epoch) == (True, 0)

    logstore.kill()
    scene.wait(300)
    logstore.start()
    scene.produce("two")
    scene.until_acknowledged()

    (partition,) = logstore.partitions
    assert partition.leader_epoch > 0, "a restart is a change of leader"
    assert scene.read_everything() == ["one", "two"]


def test_a_produce_that_waits_for_a_dead_leader_fails_at_once_and_is_repeated_once() -> None:
    scene = Scene().begin()
    leader = scene.leader
    scene.slow_down(scene.followers[0], 900)
    (pod,) = scene.cluster.purgatories
    reported: list[list[int]] = []
    watched = pod.completed

    def listen(node: PurgatoryNode, outputs: Outputs) -> None:
        reported.extend(each.error_codes for some in outputs.completions.values() for each in some if each.error_codes)
        watched(node, outputs)

    pod.completed = listen

    scene.produce("one")
    scene.until_parked()
    leader.kill()
    scene.wait(100)
    leader.start()
    scene.until_acknowledged()

    assert reported[0] == [ErrorCode.NOT_LEADER_OR_FOLLOWER], (
        "the old epoch is over, whatever the new one's watermark says"
    )
    assert scene.read_everything() == ["one"], "the repetition was recognised as one"


def test_a_logstore_that_hears_of_its_registration_last_leads_all_the_same() -> None:
    scene = Scene(acks=1, logstores=1)
    (logstore,) = scene.cluster.logstores
    # etcd tells the controllers at once; its answer to the logstore itself takes its time.
    scene.cluster.network.set_delay("etcd", logstore.name, 80_000)
    scene.begin()
    scene.produce("one")
    scene.until_acknowledged()
    assert scene.acknowledged == ["one"]
