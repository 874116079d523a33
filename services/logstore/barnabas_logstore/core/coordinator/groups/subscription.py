"""The one thing that a coordinator reads of what consumers tell each other: the topics that they subscribe to.

Source: Kafka's ConsumerProtocolSubscription.json, of which every version begins like this: version, topics.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

_HEAD: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")


def topics_of_subscription(metadata: bytes) -> set[str] | None:
    """None: it is not what consumers write."""
    if len(metadata) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(metadata)
    if version < 0 or not 0 <= count <= (len(metadata) - _HEAD.size) // _LENGTH.size:
        return None
    topics: set[str] = set()
    position = _HEAD.size
    for _ in range(count):
        if position + _LENGTH.size > len(metadata):
            return None
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if not 0 <= length <= len(metadata) - position:
            return None
        try:
            topics.add(str(metadata[position : position + length], "utf-8"))
        except UnicodeDecodeError:
            return None
        position += length
    return topics
