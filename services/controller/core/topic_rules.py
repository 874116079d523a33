"""What elections and ISR changes have to know of each topic's configuration."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cluster.topic_config import TopicConfig
from services.controller.core.image import ControllerImage
from services.controller.core.partition_changes import TopicRules


class TopicRulesTable:
    """`defaults` are settings in topics' own names for topics that don't override them."""

    def __init__(self, image: ControllerImage, defaults: Mapping[str, str]) -> None:
        self._image = image
        self._defaults = dict(defaults)

    def of(self, topic_id: bytes) -> TopicRules:
        """A topic under deletion, or one whose configuration no one can read, has the strictest: nothing unclean."""
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            return TopicRules()
        config = TopicConfig.from_overrides({**self._defaults, **topic.configs})
        if isinstance(config, str):
            return TopicRules()
        return TopicRules(config.min_insync_replicas, config.unclean_leader_election_enable)
