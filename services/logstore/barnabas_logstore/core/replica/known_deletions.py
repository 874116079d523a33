"""Which partitions the cluster certainly does not have any more.

That a partition is absent from the image says little: after a start the image is empty until the first UpdateMetadata,
while LeaderAndIsr already names what this logstore leads; the controller may have been lost between the two; and a
topic that it can't read in etcd it does not send. An absent partition is deleted only if both of this holds:

- The image is not older than the leadership for which this is asked: it has the led partition under that leader epoch,
  or a later one. A leader has had the commands of the controller in their order, LeaderAndIsr before UpdateMetadata. So
  what an earlier leader knew of the cluster, when it wrote what this one acts on, is older than the election of this
  one, and an image with the election has every topic that was known then, unless it was deleted.
- The controller does not list the topic as unreadable. It does so in each full state, so one that has failed over, or
  was restarted, says it again. Of a topic that it can read, it sends every partition, unreadable ones without a leader.

A topic that was deleted and created again is present; a partition that only the deleted one had is deleted.
"""

from __future__ import annotations

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import UpdateMetadata
from barnabas_logstore.core.storage.checkpoints import TopicPartition


class KnownDeletions:
    __slots__ = ("_image", "_unreadable_topics")

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._unreadable_topics: frozenset[str] = frozenset()

    def on_full_update(self, update: UpdateMetadata) -> None:
        """The image has been replaced by this update."""
        self._unreadable_topics = frozenset(update.unknown_topics)

    def is_deleted(self, partition: TopicPartition, led: TopicPartition, leader_epoch: int) -> bool:
        """Return whether `partition`, of which the log of `led` tells, is certainly deleted. This logstore leads `led`
        under `leader_epoch`.
        """
        if not self._has_seen(led, leader_epoch):
            return False
        topic, number = partition
        known = self._image.topics_by_name.get(topic)
        if topic in self._unreadable_topics:
            return False
        return known is None or self._image.partition(known.topic_id, number) is None

    def _has_seen(self, led: TopicPartition, leader_epoch: int) -> bool:
        topic, number = led
        known = self._image.topics_by_name.get(topic)
        state = None if known is None else self._image.partition(known.topic_id, number)
        return state is not None and state.leader_epoch >= leader_epoch
