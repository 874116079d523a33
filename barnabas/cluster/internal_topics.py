"""The topics in which coordinators keep their state. The leader of one of their partitions is the coordinator of what
is in it; a group or transactional id belongs to the partition of its hash.

Sources: Kafka's `Topic` and `GroupCoordinatorService`.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Groups and their offsets."""
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
"""Transactional ids."""
COORDINATED_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))
INTERNAL_TOPICS: Final = COORDINATED_TOPICS | {"__share_group_state"}


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, an int32: over UTF-16 code units, which are not characters beyond the basic plane."""
    units: bytes | tuple[int, ...] = text.encode() if text.isascii() else _utf16(text)
    total = 0
    for unit in units:
        total = (31 * total + unit) & 0xFFFF_FFFF
    return total - (1 << 32) if total >> 31 else total


def _utf16(text: str) -> tuple[int, ...]:
    encoded = text.encode("utf-16-be")
    return unpack(f">{len(encoded) // 2}H", encoded)


@lru_cache(maxsize=16_384)  # every heartbeat and commit of a group asks
def partition_of_group(group_id: str, partitions: int) -> int:
    """Kafka's `GroupCoordinatorService.partitionFor`; `Utils.abs` maps the smallest int32, which has no int32 absolute
    value, to 0.
    """
    number = abs(java_hash(group_id))
    return 0 if number > 0x7FFF_FFFF else number % partitions
