"""A leader dies in the turn in which it advances the high watermark: what it has sent counts, and the checks see it."""

from __future__ import annotations

import pytest

from barnabas_logstore.core.replica.partition import Partition
from tests.scenarios.scene import Scene
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.process import CrashPoint
from tests.sim.scheduler import InvariantViolation


def a_parked_produce(*, member_has_it: bool, seed: int = 1) -> tuple[Scene, LogstoreNode, LogstoreNode]:
    """Return the scene, the leader and the other member of the ISR, which is cut off from the leader in one direction.

    `two` is parked. The third replica, out of the ISR until now, has it, and its next fetch asks for the end of the
    log: in the turn in which the leader sees that fetch it asks for another ISR, and dies. With `member_has_it` the
    other member has written `two`, too, and its fetch is seen in the same turn.
    """
    scene = Scene(replica_lag_ms_max=3_000, seed=seed).begin()
    leader, (member, third) = scene.leader, scene.followers
    scene.cut_off(third)
    scene.produce("one")
    scene.until(lambda: third not in scene.in_sync, "the third replica leaves the ISR")
    scene.until_acknowledged()

    network = scene.cluster.network
    if member_has_it:
        scene.produce("two")
        scene.until(lambda: scene.partition_at(member).log.log_end_offset == 2, "the member has the second record")
        network.cut(member.name, leader.name)
    else:
        scene.cut_off(member, leader)
        scene.produce("two")
    scene.until_parked()
    for source, target in ((third, leader), (leader, third)):
        network.heal(source.name, target.name)
    scene.until(lambda: scene.partition_at(third).log.log_end_offset == 2, "the third replica has the second record")
    leader.pause()
    if member_has_it:
        network.heal(member.name, leader.name)
    scene.wait(500)
    leader.crash_points[CrashPoint.ALTER_PARTITION_SENT] = leader.kill
    return scene, leader, member


def until_dead(scene: Scene, leader: LogstoreNode) -> None:
    scene.until(lambda: not leader.alive, "the leader dies as it asks for another ISR")


def test_what_a_leader_commits_in_its_last_turn_is_acknowledged_and_kept() -> None:
    """Its last message may be lost with its connections: in some seeds it arrives, and completes what is parked."""
    by_last_message = 0
    for seed in range(1, 9):
        scene, leader, _ = a_parked_produce(member_has_it=True, seed=seed)
        leader.resume()
        until_dead(scene, leader)
        successes = scene.cluster.invariants.successes_by_purgatory
        scene.wait(500)
        by_last_message += scene.cluster.invariants.successes_by_purgatory - successes
        leader.start()
        scene.reconnect()
        scene.until_acknowledged()
        assert scene.read_everything() == ["one", "two"]
    assert by_last_message


def test_a_watermark_that_runs_ahead_in_the_last_turn_of_a_leader_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies before its turn ends; what it has called committed by then is held against it all the same."""
    scene, leader, _ = a_parked_produce(member_has_it=False)
    (partition,) = leader.partitions
    assert (partition.high_watermark, partition.log.log_end_offset) == (1, 2)

    def advance(self: Partition, lag_ms_max: int, now_ms: int) -> bool:
        moves = self.high_watermark < self.log.log_end_offset
        self.high_watermark = self.log.log_end_offset
        return moves

    monkeypatch.setattr(Partition, "advance_high_watermark", advance)
    leader.resume()
    with pytest.raises(InvariantViolation, match=r"I2: .* has of .* up to 1 of 2"):
        until_dead(scene, leader)
