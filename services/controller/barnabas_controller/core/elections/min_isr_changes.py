"""A change of `min.insync.replicas`, which decides when watermarks move, and so which replicas hold every committed
record.

Eligible leader replicas depend on it: with a lower minimum the leader continues without them. So before the config
changes they are removed, and none is added before it is written (Kafka's controller does the first, in one batch of
records with the config). From then on, an ISR falls under the minimum, and the replica that leaves becomes eligible,
only if the leader epoch ends with the change, or the leader has acknowledged the config: a leader that has not, because
its control stream is cut, may continue under the old minimum, and would acknowledge alone (`ControlLinks.unaware`).
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_controller.core.members.control_links import ControlLinks
from barnabas_controller.core.state.chunk_changes import PartitionChange, PartitionKey, change_steps
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import without_eligible
from barnabas_controller.core.state.topic_rules import TopicRulesTable
from barnabas_controller.core.state.writes import Step


class MinInsyncReplicasChanges:
    """The changes of the one request that is being written."""

    def __init__(self, image: ControllerImage, links: ControlLinks, rules: TopicRulesTable) -> None:
        self._image = image
        self._links = links
        self._rules = rules
        self._is_begun = False

    def begin(self, topic_ids: Sequence[bytes]) -> list[Step]:
        """Return what has to be written before the config is."""
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
        # The streams of another term begin with the full state.
        self._links.min_isr_revision = 0
        self._rules.unsettled.clear()
