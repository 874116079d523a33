"""The topics in which coordinators keep their state. The leader of one of their partitions is the coordinator of what
is in it.

Source: Kafka's `Topic`.
"""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Groups and their offsets."""
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
"""Transactional ids."""
COORDINATED_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))
INTERNAL_TOPICS: Final = COORDINATED_TOPICS | {"__share_group_state"}
