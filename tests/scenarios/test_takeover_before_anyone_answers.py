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


def test_a_leader_that_leads_on_out_of_reach_and_loses_its_power_is_followed_by_what_was_killed() -> None:
    """Whether the leader knows the minimum is not known, so a follower that has gone stays in sync."""
    scene = Scene(logstores=2).begin()
    leader, (follower,) = scene.leader, scene.followers
    scene.produce("one")
    scene.until_acknowledged()
    (active,) = [each for each in scene.cluster.controllers if each.is_active]

    scene.cut_off(leader, *scene.cluster.controllers)
    active.kill()
    active.start()
    scene.until(lambda: any(each.is_active for each in scene.cluster.controllers), "the election key is taken over")
    follower.kill()
    scene.wait(10_000)
    assert scene.record.leader == leader.node_id
    assert scene.in_sync == [leader, follower]

    scene.cluster.lose_power(leader)
    scene.reconnect()
    follower.start()
    scene.until(lambda: scene.record.leader == follower.node_id, "the follower is elected")
    leader.start()
    scene.until(lambda: len(scene.in_sync) == 2, "both are in sync again")
    assert scene.read_everything() == ["one"]
