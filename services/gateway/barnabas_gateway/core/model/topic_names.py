"""Names of topics that exist."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.cluster.image import ClusterImage


def partitions_of(image: ClusterImage, topic: str) -> Collection[int]:
    """Return the existing partitions of a topic; none if it does not exist."""
    known = image.topics_by_name.get(topic)
    return () if known is None else image.partitions_by_topic_id[known.topic_id]
