"""The ISR change that ends a move is answered before LeaderAndIsr tells who the replicas are from then on.

A partition moves from logstore 3 to logstore 2. The leader asks for 2 to join; with that the move has ended, and the
answer says so: the ISR is 1 and 2. It does not say that 3 is no replica any more. LeaderAndIsr does, under the same
epochs, and was taken for what is known already. So the leader had 3 for a follower that has caught up, asked for it to
join ten times a second, was refused, and kept waiting for it: no watermark moved any more.
"""

from __future__ import annotations

from barnabas.cluster.messages import AlterPartitionResponse, IsrChangeResult
from tests.unit.logstore.replication.support import FollowerByHand, at, leading_host, partition_of
from tests.unit.logstore.service.support import topic


def test_the_leader_does_not_wait_for_a_former_replica() -> None:
    host = leading_host([1, 3])
    second, third = FollowerByHand(host, 2), FollowerByHand(host, 3)
    second.ask(at(0))
    third.ask(at(0))
    host.settle()
    host.core.on_alter_partition(AlterPartitionResponse(0, [IsrChangeResult(0, 1, 0, 1, [1, 2])]))
    host.settle()

    host.lead(topic(partition_epoch=1, replicas=[1, 2], in_sync_replicas=[1, 2], configs={"min.insync.replicas": "2"}))
    partition = partition_of(host)
    assert partition.replicas == (1, 2)
    assert list(partition.followers) == [2]
    assert partition.isr.pending is None

    host.append(leader_epoch=0)
    host.settle()
    second.ask(at(1))
    host.settle()
    assert partition.high_watermark == 1
