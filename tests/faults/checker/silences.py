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

    def longest_around_ms(self, from_ns: int, to_ns: int) -> float:
        """Of any partition, the longest silence that began between the two times, to its end even after them."""
        longest = 0
        for times in self.acknowledged_ns.values():
            at = max(bisect_left(times, from_ns) - 1, 0)
            while at + 1 < len(times) and times[at] < to_ns:
                longest = max(longest, times[at + 1] - max(times[at], from_ns))
                at += 1
        return longest / 1e6

    def whole_ms(self) -> dict[int, float]:
        """By partition, over the time in which records were sent to it; acknowledgements after that count too."""
        return {
            partition: self.longest_ms(
                partition, times[0], max(times[-1], *self.acknowledged_ns.get(partition, [0])[-1:])
            )
            for partition, times in sorted(self.sent_ns.items())
        }
