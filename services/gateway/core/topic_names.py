"""Which topic names are legal (`org.apache.kafka.common.internals.Topic`)."""

from __future__ import annotations

import re

TOPIC_NAME_LENGTH_MAX = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def is_legal_topic_name(topic: str) -> bool:
    return len(topic) <= TOPIC_NAME_LENGTH_MAX and topic not in (".", "..") and _LEGAL.match(topic) is not None


INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own; Metadata marks them as internal."""
