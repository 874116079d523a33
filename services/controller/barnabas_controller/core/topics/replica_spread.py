"""Spread replicas of new partitions: leaders evenly, replicas over racks first and then evenly.

Kafka stripes over racks from a random start; here the counts of existing replicas decide, so that topics created one by
one balance too, and the same cluster always gives the same placement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas_controller.core.state.replica_counts import ChunkCounts


@dataclass(slots=True)
class ReplicaSpread:
    """Counts per live logstore; every placement counts at once. Racks are by node id, "" for none."""

    racks: Mapping[int, str]
    leaders: dict[int, int] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)

    def count(self, replicas: Iterable[int]) -> None:
        """Count a partition, whose preferred leader is the first replica."""
        for position, node_id in enumerate(replicas):
            if node_id in self.racks:
                self.replicas[node_id] = self.replicas.get(node_id, 0) + 1
                if position == 0:
                    self.leaders[node_id] = self.leaders.get(node_id, 0) + 1

    def add(self, counts: ChunkCounts) -> None:
        """Count the partitions of a chunk."""
        for node_id in self.racks:
            self.replicas[node_id] = self.replicas.get(node_id, 0) + counts.replicas[node_id]
            self.leaders[node_id] = self.leaders.get(node_id, 0) + counts.leaders[node_id]

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the replicas of one more partition, its preferred leader first. There must be at least as many
        logstores.
        """
        assert 0 < replication_factor <= len(self.racks)
        chosen: list[int] = []
        for _ in range(replication_factor):
            free = [each for each in self.racks if each not in chosen]
            chosen.append(self._best(free, chosen, is_preferred=not chosen))
        self.count(chosen)
        return tuple(chosen)

    def substitute(self, rest: Sequence[int], places: Sequence[int], *, is_preferred: bool) -> int:
        """Choose one of `places` to join the other replicas of a partition, as its preferred leader or as another
        replica.
        """
        node_id = self._best(places, rest, is_preferred=is_preferred)
        self.replicas[node_id] = self.replicas.get(node_id, 0) + 1
        if is_preferred:
            self.leaders[node_id] = self.leaders.get(node_id, 0) + 1
        return node_id

    def _best(self, places: Sequence[int], chosen: Sequence[int], *, is_preferred: bool) -> int:
        """Without racks, every logstore is its own rack."""
        used_racks = Counter([self.racks.get(each, "") for each in chosen])
        return min(
            places,
            key=lambda each: (
                used_racks[self.racks[each]] if self.racks[each] else 0,
                self.leaders.get(each, 0) if is_preferred else self.replicas.get(each, 0),
                self.replicas.get(each, 0),
                each,
            ),
        )
