"""A controller that has just become active, before any logstore has answered it."""

from __future__ import annotations

from tests.scenarios.scene import Scene


def test_a_leader_that_restarts_beside_a_follower_without_power_may_lead_again() -> None:
    """The follower is still registered and is elected; of two disks only its own has lost anything."""
    scene = Scene(logstores=2).begin()
    leader, (follower,) = scene.leader, scene.followers
    scene.produce("one")
    scene.until_acknowledged()
    (active,) = [each for each in scene.cluster.controllers if each.is_active]

    active.kill()
    scene.cluster.lose_power(follower)
    leader.kill()
    active.start()
    scene.until(lambda: any(each.is_active for each in scene.cluster.controllers), "the election key is taken over")
    leader.start()
    scene.until(lambda: scene.record.leader != leader.node_id, "the follower is elected before its lease ends")
    assert scene.in_sync == [follower]
    assert scene.record.eligible_leader_replicas == (leader.node_id,)

    scene.wait(10_000)
    assert scene.record.leader == leader.node_id, "the follower's lease has ended"
    follower.start()
    scene.until(lambda: len(scene.in_sync) == 2, "both are in sync again")
    assert scene.read_everything() == ["one"]
