"""Where replicas of new partitions go: leaders spread evenly, replicas over racks first and then evenly.

Kafka stripes over racks from a random start; here the counts of what is there already decide, so that topics made one
by one balance too, and the same cluster always gives the same placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class ReplicaSpread:
    """How much each live logstore has; every placement counts at once. Racks are by node id, "" for none."""

    racks: Mapping[int, str]
    leaders: dict[int, int] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)

    def count(self, replicas: Iterable[int]) -> None:
        """Take note of a partition, whose preferred leader is the first replica."""
        for position, node_id in enumerate(replicas):
            if node_id in self.racks:
                self.replicas[node_id] = self.replicas.get(node_id, 0) + 1
                if position == 0:
                    self.leaders[node_id] = self.leaders.get(node_id, 0) + 1

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """The replicas of one more partition, its preferred leader first. There have to be as many logstores."""
        assert 0 < replication_factor <= len(self.racks)
        chosen: list[int] = []
        replicas_by_rack: dict[str, int] = {}
        for _ in range(replication_factor):
            # Without racks every logstore is a rack of its own.
            node_id = min(
                (each for each in self.racks if each not in chosen),
                key=lambda each: (
                    replicas_by_rack.get(self.racks[each], 0) if self.racks[each] else 0,
                    self.replicas.get(each, 0) if chosen else self.leaders.get(each, 0),
                    self.replicas.get(each, 0),
                    each,
                ),
            )
            chosen.append(node_id)
            replicas_by_rack[self.racks[node_id]] = replicas_by_rack.get(self.racks[node_id], 0) + 1
        self.count(chosen)
        return tuple(chosen)
