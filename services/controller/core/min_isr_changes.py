"""A change of `min.insync.replicas`, which decides when watermarks move, and so who holds every committed record.

Eligible leader replicas rest on it: with a lower minimum the leader goes on without them. So before the configuration
changes they are struck out, and until every logstore has heard of it nobody becomes one (Kafka's controller does the
first, in one batch of records with the configuration).
"""

from __future__ import annotations

from collections.abc import Sequence

from services.controller.core.chunk_changes import PartitionChange, PartitionKey, change_steps
from services.controller.core.control_links import ControlLinks
from services.controller.core.image import ControllerImage
from services.controller.core.partition_changes import without_eligible
from services.controller.core.topic_rules import TopicRulesTable
from services.controller.core.writes import Step


class MinInsyncReplicasChanges:
    """Of the one request that is being written, and of those before it that logstores have yet to hear of."""

    def __init__(self, image: ControllerImage, links: ControlLinks, rules: TopicRulesTable) -> None:
        self._image = image
        self._links = links
        self._rules = rules
        self._is_begun = False
        self._committed_revision: int | None = None

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
            self._committed_revision = revision

    def settle(self) -> None:
        """Once all know of it."""
        revision = self._committed_revision
        if revision is not None and not self._is_begun and self._links.logstores_know(revision):
            self._committed_revision = None
            self._rules.unsettled.clear()

    def abandon(self) -> None:
        self._is_begun = False
        self._committed_revision = None
        self._rules.unsettled.clear()
