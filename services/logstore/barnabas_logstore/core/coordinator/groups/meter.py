"""GroupMeter: what the groups of a logstore have come to, in plain numbers; whatever becomes of their partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupMeter:
    offset_commits: int = 0
    offset_expirations: int = 0
    rebalances: int = 0
