"""Which topic names are legal (`org.apache.kafka.common.internals.Topic`), which are Kafka's own, which are known."""

from __future__ import annotations

import re
from collections.abc import Collection

from barnabas.cluster.image import ClusterImage

TOPIC_NAME_LENGTH_MAX = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def is_legal_topic_name(topic: str) -> bool:
    return len(topic) <= TOPIC_NAME_LENGTH_MAX and topic not in (".", "..") and _LEGAL.match(topic) is not None


OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
"""Kafka's own; Metadata marks them as internal."""


def partitions_of(image: ClusterImage, topic: str) -> Collection[int]:
    """The partitions that there are of a topic; none of one that is not there."""
    known = image.topics_by_name.get(topic)
    return () if known is None else image.partitions_by_topic_id[known.topic_id]
