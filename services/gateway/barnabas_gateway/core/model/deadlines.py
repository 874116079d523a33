"""The time of the present input, and deadlines of requests and connections, in buckets of a few ms.

Nearly every deadline is cancelled, since its request is answered long before. A heap would keep the cancelled ones
until their time, with all that they reference; here adding and removing are one dictionary operation each.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol

from barnabas_gateway.core.model.containment import end_by

BUCKET_MS = 8


class Clock:
    """One per processor; the processor sets it at each input, all others read it."""

    __slots__ = ("now_ms",)

    def __init__(self) -> None:
        self.now_ms = 0
        """Monotonic."""


class Expiring(Protocol):
    """An object with a deadline. `deadline_bucket` belongs to `Deadlines`; it starts as -1, which means not added."""

    deadline_bucket: int

    def expire(self, now_ms: int) -> None: ...

    def failed(self, error: Exception) -> None:
        """`expire` has met an unexpected exception: contain it, or raise it again."""


class Deadlines:
    __slots__ = ("_buckets", "_heap")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Expiring, None]] = {}
        self._heap: list[int] = []

    def schedule(self, expiring: Expiring, deadline_ms: int) -> None:
        """Call `expiring.expire` once at `deadline_ms` or up to a bucket later; replaces an earlier deadline."""
        if expiring.deadline_bucket >= 0:
            self.unschedule(expiring)
        # A timeout chosen by a client may lie before the clock began; a bucket below 0 would mean none.
        number = max(deadline_ms // BUCKET_MS + 1, 0)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = {}
            heappush(self._heap, number)
        bucket[expiring] = None
        expiring.deadline_bucket = number

    def unschedule(self, expiring: Expiring) -> None:
        """Remove its deadline, if it has one."""
        number = expiring.deadline_bucket
        if number >= 0:
            del self._buckets[number][expiring]
            expiring.deadline_bucket = -1

    def expire(self, now_ms: int) -> None:
        """Expire what is due, by bucket, within a bucket in the order of `schedule`."""
        while self._heap and self._heap[0] * BUCKET_MS <= now_ms:
            number = heappop(self._heap)
            bucket = self._buckets[number]
            while bucket:
                expiring = next(iter(bucket))
                self.unschedule(expiring)
                try:
                    expiring.expire(now_ms)
                except Exception as error:
                    end_by(expiring, error)
            del self._buckets[number]

    def next_deadline_ms(self) -> int | None:
        """Return when `expire` should be called next, or None."""
        while self._heap:
            number = self._heap[0]
            if self._buckets[number]:
                return number * BUCKET_MS
            heappop(self._heap)
            del self._buckets[number]
        return None


def earlier(first_ms: int | None, second_ms: int | None) -> int | None:
    """Return the earlier one of two deadlines; None stands for none."""
    if first_ms is None or second_ms is None:
        return second_ms if first_ms is None else first_ms
    return min(first_ms, second_ms)
