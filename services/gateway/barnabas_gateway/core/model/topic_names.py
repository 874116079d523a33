"""Legal topic names (`org.apache.kafka.common.internals.Topic`), and known topics."""

from __future__ import annotations

import re
from collections.abc import Collection

from barnabas.cluster.image import ClusterImage

TOPIC_NAME_LENGTH_MAX = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def is_legal_topic_name(topic: str) -> bool:
    return len(topic) <= TOPIC_NAME_LENGTH_MAX and topic not in (".", "..") and _LEGAL.match(topic) is not None


def partitions_of(image: ClusterImage, topic: str) -> Collection[int]:
    """Return the existing partitions of a topic; none if it does not exist."""
    known = image.topics_by_name.get(topic)
    return () if known is None else image.partitions_by_topic_id[known.topic_id]
