"""A leader is elected, unclean, while a slow disk has yet to write what it had fetched from the one before.

Seed 77010010 of tours with exceptions: by its epochs it had those records, so a follower that had them joined its ISR.
It died before they were written, and was left among the eligible leader replicas of the follower, which had taken them
for committed since an earlier leader said so. Worse, had the disk failed to write them: the position of that follower
would have acknowledged other records in their place.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.channel.messages import ReplicaData
from barnabas.cluster.messages import LeaderAndIsr
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.maintenance.full_disks import PROBE_MS
from barnabas_logstore.core.storage.effects import WriteEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.replication.support import (
    LEADER,
    REPLICAS,
    FollowerByHand,
    FollowingHost,
    answer,
    at,
    fetch_of,
    following_host,
    partition_of,
    stored,
)
from tests.unit.logstore.replication.test_isr_changes import asked
from tests.unit.logstore.service.support import NODE_ID, batch, topic
from tests.unit.logstore.service.test_full_disks import lacks_of_space, tick

MEMBERS = [[NODE_ID, 3]]


def elected_before_it_writes(in_sync_replicas: Sequence[int] = (NODE_ID,)) -> FollowingHost:
    """Its log has records of epoch 0 up to 2, of which the disk has none."""
    host = following_host()
    host.greet(1, 2, 3)
    fetch = fetch_of(host)
    host.holds_effects = True
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 0, 0, records=stored(0, 0, 2)))
    host.turn()
    assert [type(effect) for effect in host.held] == [WriteEffect]
    state = topic(1, 1, leader=NODE_ID, replicas=REPLICAS, in_sync_replicas=in_sync_replicas)
    host.core.on_control(7, host.command(LeaderAndIsr(False, [state])))
    host.turn()
    assert (partition_of(host).epoch_start_offset, partition_of(host).log.log_end_offset) == (2, 0)
    return host


def proposed(host: FollowingHost) -> list[list[int]]:
    """The members of each ISR that is asked for until nothing is left to be done."""
    request = asked(host)
    changes = [] if request is None else request.partitions
    return [[member.broker_id for member in change.in_sync_replicas] for change in changes]


def proposed_at_once(host: FollowingHost) -> bool:
    return host.turn().replication.alter_partition is not None


def test_no_follower_joins_until_it_has_written_that() -> None:
    host = elected_before_it_writes()
    third = FollowerByHand(host, 3)
    third.ask(at(2, epoch=1))
    assert not proposed_at_once(host)
    host.holds_effects = False
    assert proposed(host) == MEMBERS, "though the follower has not moved since"


def test_who_has_what_could_not_be_written_diverges_and_joins_without_it() -> None:
    host = elected_before_it_writes()
    third = FollowerByHand(host, 3)
    third.ask(at(2, epoch=1))
    assert not proposed_at_once(host)
    fail_to_write(host)
    assert proposed(host) == []
    assert third.fetch(at(2, epoch=1)) == [diverging_at(0)]
    third.ask(at(0, epoch=1))
    assert proposed(host) == MEMBERS


def test_what_a_member_had_instead_acknowledges_nothing() -> None:
    """Were its leader to die, it would be elected without what was acknowledged."""
    host = elected_before_it_writes([NODE_ID, 3])
    third = FollowerByHand(host, 3)
    third.ask(at(2, epoch=1))
    host.turn()
    fail_to_write(host)
    host.settle()
    assert lacks_of_space(tick(host, PROBE_MS)) == [("/data0", None)]
    result = host.append(batch(2), leader_epoch=1)
    assert (result.error_code, result.base_offset, result.committed) == (ErrorCode.NONE, 0, False)
    partition = partition_of(host)
    assert (partition.log.log_end_offset, partition.high_watermark) == (2, 0)
    assert third.fetch(at(2, epoch=1)) == [diverging_at(0)]
    third.fetch(at(0, epoch=1))
    third.ask(at(2, 1, epoch=1))
    host.settle()
    assert partition.high_watermark == 2


def fail_to_write(host: FollowingHost) -> None:
    host.disk.faults.append(Fault("write_at", ".log", DiskErrorKind.NO_SPACE))
    host.holds_effects = False


def diverging_at(offset: int) -> ReplicaData:
    return ReplicaData(1, 0, 1, NODE_ID, 0, 0, diverging_epoch=0, diverging_end_offset=offset)
