"""A change of `min.insync.replicas`, which decides when watermarks move, and so who holds every committed record.

Eligible leader replicas rest on it: with a lower minimum the leader goes on without them. So before the configuration
changes they are struck out, and nobody becomes one before it is written (Kafka's controller does the first, in one
batch of records with the configuration). From then on an ISR falls under the minimum, and who leaves becomes one, only
where the leader epoch ends with that, or the leader has acknowledged the configuration: one that has not, as its
control stream is cut, may lead on under the minimum of before, and would acknowledge alone (`ControlLinks.unaware`).
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_controller.core.chunk_changes import PartitionChange, PartitionKey, change_steps
from barnabas_controller.core.control_links import ControlLinks
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.partition_changes import without_eligible
from barnabas_controller.core.topic_rules import TopicRulesTable
from barnabas_controller.core.writes import Step


class MinInsyncReplicasChanges:
    """Of the one request that is being written."""

    def __init__(self, image: ControllerImage, links: ControlLinks, rules: TopicRulesTable) -> None:
        self._image = image
        self._links = links
        self._rules = rules
        self._is_begun = False

    def begin(self, topic_ids: Sequence[bytes]) -> list[Step]:
        """What has to be written before the configuration is."""
        if not topic_ids:
            return []
        self._is_begun = True
        self._rules.unsettled.update(topic_ids)
        changes: dict[PartitionKey, PartitionChange] = {
            (topic_id, number): without_eligible
            for topic_id in topic_ids
            for number, partition in self._image.partitions(topic_id)
            if partition.eligible_leader_replicas
        }
        return change_steps(self._image, changes)

    def committed(self, revision: int) -> None:
        """The request that is being written is in the image."""
        if self._is_begun:
            self._is_begun = False
            self._links.min_isr_revision = revision
            self._rules.unsettled.clear()

    def abandon(self) -> None:
        self._is_begun = False
        # The streams of another term begin with everything.
        self._links.min_isr_revision = 0
        self._rules.unsettled.clear()
