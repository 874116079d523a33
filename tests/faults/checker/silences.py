"""How long a partition went without an acknowledged write."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class Silences:
    """Times in ns of the history's clock. Producers send to all partitions all the time: silence is the cluster's."""

    acknowledged_ns: dict[int, list[int]] = field(default_factory=dict)
    """By partition, ascending: writes with acks=all or idempotent."""
    sent_ns: dict[int, list[int]] = field(default_factory=dict)
    """By partition, ascending: when such writes were first asked for."""

    def longest_ms(self, partition: int, from_ns: int, to_ns: int) -> float:
        """The longest time between two acknowledgements, counting what of it lies between the two times.

        Both ends count as acknowledgements: a partition that is silent throughout was so for the whole time.
        """
        times = self.acknowledged_ns.get(partition, [])
        within = [from_ns, *times[bisect_left(times, from_ns) : bisect_right(times, to_ns)], to_ns]
        return max(later - earlier for earlier, later in pairwise(within)) / 1e6

    def longest_of_any_ms(self, from_ns: int, to_ns: int) -> float:
        """Of the partitions that were written to."""
        return max((self.longest_ms(partition, from_ns, to_ns) for partition in self.sent_ns), default=0.0)

    def whole_ms(self) -> dict[int, float]:
        """By partition, over the time in which records were sent to it; acknowledgements after that count too."""
        return {
            partition: self.longest_ms(
                partition, times[0], max(times[-1], *self.acknowledged_ns.get(partition, [0])[-1:])
            )
            for partition, times in sorted(self.sent_ns.items())
        }
