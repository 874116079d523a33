"""GroupMeter: counts of the groups of a logstore, in plain numbers that outlive their partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupMeter:
    offset_commits: int = 0
    offset_expirations: int = 0
    rebalances: int = 0
