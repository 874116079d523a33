"""Obligations of followers: the watermark waits for those in sync, and for no other."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from tests.scenarios.scene import Scene
from tests.sim.scheduler import SECOND


def test_a_follower_that_falls_silent_leaves_the_isr_and_comes_back() -> None:
    scene = Scene(replica_lag_ms_max=2_000).begin()
    silent = scene.followers[0]
    scene.produce("one")
    scene.until_acknowledged()

    # Etcd still hears of it: it is not taken for dead.
    scene.cut_off(silent)
    scene.produce("two")
    scene.wait(500)
    assert scene.acknowledged == ["one"], "who is in sync is waited for"
    scene.until_acknowledged()
    assert silent not in scene.in_sync, "who has not been caught up for replica.lag.time.max.ms is not in sync"

    scene.reconnect()
    scene.until(lambda: silent in scene.in_sync, "it has caught up, and is in sync again")
    assert scene.partition_at(silent).log.log_end_offset == 2
    assert scene.read_everything() == ["one", "two"]


def test_a_leader_alone_takes_nothing_that_two_should_have() -> None:
    scene = Scene().begin()
    scene.produce("one")
    scene.until_acknowledged()
    for follower in scene.followers:
        follower.kill()
    scene.until(lambda: len(scene.partition_at(scene.leader).isr.committed) == 1, "the dead are out of sync")

    reported: list[ErrorCode] = []
    scene.listen_to_refusals(reported)
    scene.produce("two")
    scene.until(lambda: reported, "the leader refuses")
    assert reported[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert scene.partition_at(scene.leader).log.log_end_offset == 1, "and has not written it"

    scene.followers[0].start()
    scene.until_acknowledged()
    assert scene.read_everything() == ["one", "two"]


def test_a_leader_that_is_cut_off_commits_nothing_and_forgets_it() -> None:
    scene = Scene(acks=1, idempotent=False).begin()
    old_leader = scene.leader
    scene.produce("one")
    scene.until_acknowledged()
    scene.until(lambda: scene.partition_at(old_leader).high_watermark == 1, "every replica has it")

    # Its gateways reach it; etcd, the controllers and the other logstores do not.
    scene.cut_off(old_leader, scene.cluster.etcd, *scene.cluster.controllers, *scene.followers)
    scene.produce("for no reader")
    scene.until(
        lambda: scene.partition_at(old_leader).log.log_end_offset == 2, "it is written where no follower fetches it"
    )
    assert scene.partition_at(old_leader).high_watermark == 1

    scene.until(
        lambda: scene.leader is not old_leader and scene.partition_at(scene.leader).leading, "another one leads"
    )
    scene.wait(1_000)
    scene.produce("two")
    scene.until(lambda: scene.partition_at(scene.leader).log.log_end_offset == 2, "the new leader takes a record")
    scene.reconnect()
    scene.until(lambda: len(scene.in_sync) == 3, "the old leader follows, and is in sync")
    assert scene.partition_at(old_leader).log.log_end_offset == 2
    scene.cluster.run_for(SECOND)
    assert scene.everything_consumed() == ["one", "two"], "no consumer has seen what was never committed"
