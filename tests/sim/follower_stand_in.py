"""Where topics have one replica: somebody who confirms what leaders have written, some time later.

With it acks=all has something to wait for, so that requests park in purgatory and watermarks move apart from appends.
It is in the leader's own books (`Partition.followers`) as one that has caught up and is about to join the ISR, which a
watermark waits for, and knows nothing of epochs: it only ever confirms what the leader has by then.
"""

from __future__ import annotations

from services.logstore.core.partition import Partition
from services.logstore.core.replication.follower_progress import FetchSession, FollowerProgress
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.scheduler import MS

FOLLOWER = 1_000
LAG_MS_MAX = 30_000


class FollowerStandIn:
    """One for every logstore; `lag_us_max` bounds how late it confirms, now and then it takes ten times as long."""

    def __init__(self, lag_us_max: int) -> None:
        self._lag_us_max = lag_us_max
        # By partition: the epoch under which a confirmation is on its way.
        self._confirming: dict[Partition, int] = {}

    def follow(self, node: LogstoreNode) -> None:
        """After every turn of a logstore."""
        for partition in node.partitions:
            if not partition.leading:
                continue
            behind = self._progress(partition).log_end_offset < partition.log.log_end_offset
            if behind and self._confirming.get(partition) != partition.leader_epoch:
                self._confirming[partition] = partition.leader_epoch
                self._confirm_later(node, partition, partition.leader_epoch)

    @staticmethod
    def _progress(partition: Partition) -> FollowerProgress:
        known = partition.followers.get(FOLLOWER)
        if known is None:
            # Always just caught up, and never in the eyes of the controller.
            session = FetchSession(FOLLOWER, is_registered=True)
            known = FollowerProgress(partition.high_watermark, 0, 1 << 60, session=session)
            partition.followers[FOLLOWER] = known
        return known

    def _confirm_later(self, node: LogstoreNode, partition: Partition, leader_epoch: int) -> None:
        random = node.scheduler.random
        lag_us = random.randrange(self._lag_us_max // 2, self._lag_us_max) * (10 if random.random() < 0.05 else 1)

        def confirm() -> None:
            self._confirming.pop(partition, None)
            if partition.leading and partition.leader_epoch == leader_epoch:
                self._progress(partition).log_end_offset = partition.log.log_end_offset
                if partition.advance_high_watermark(LAG_MS_MAX, node.now_ms):
                    assert node.core is not None
                    node.core._watches.changed(partition)
            node.turn_soon()

        node.after(lag_us + random.randrange(MS), "hears from the follower", confirm)
