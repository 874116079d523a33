"""What a cluster says of itself: topics with their ids, leaders and offsets."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass

_NO_TOPIC_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class Topic:
    """`topic_id` as in `TopicPositions`; `leaders` by partition, broker ids, -1 where there is no leader now."""

    name: str
    topic_id: str
    is_internal: bool
    leaders: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """One topic as it is: by partition its first offset, and the one after its last record that may be read."""

    topic_id: str
    earliest: Mapping[int, int]
    latest: Mapping[int, int]


Extents = Mapping[str, TopicExtent]
"""By topic."""


@dataclass(frozen=True, slots=True)
class OffsetAtTime:
    """The first record at or after a time; both are -1 where there is none."""

    offset: int
    timestamp_ms: int


def topic_id_text(topic_id: bytes) -> str:
    """As Kafka's tools print it: 22 characters of base 64 for URLs, and here nothing for the id of no topic."""
    return "" if topic_id == _NO_TOPIC_ID else urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def topic_id_bytes(text: str) -> bytes:
    """The opposite of `topic_id_text`."""
    return urlsafe_b64decode(text + "==") if text else _NO_TOPIC_ID
