"""QuotaBucket: what a client has used of a quota, and how long it has to wait.

This is Kafka's `TokenBucket`: tokens come at the rate of the quota, up to its burst, and what is used may leave a debt,
which takes `debt / rate` to pay. For rates Kafka computes the same from samples: `(rate − quota) / quota × window`
(`QuotaUtils.throttleTime`) is the excess over a window's tokens, by the quota. A sample leaves the window with all that
it holds, so that a burst comes back 11 s later; tokens come back evenly.

A processor has a *share* of the quota (ADR 0033): all that its tokens come at. It does not know what the others have
used until its share is agreed with them, so that a bucket begins, and goes on while nothing is agreed, with an even
split and little burst.
"""

from __future__ import annotations

from typing import Final

from barnabas.cluster.quotas.shares import LEASE_MS, QuotaId, QuotaUse

WAIT_MS_MAX: Final = 0x7FFF_FFFF
"""What the protocol can say."""


class QuotaBucket:
    __slots__ = (
        "_at_ms",
        "_burst_ms",
        "_leased_until_ms",
        "_members",
        "_rate",
        "_reported_ms",
        "_reported_throttled",
        "_reported_used",
        "_split_burst_ms",
        "is_reported",
        "limit",
        "throttle_ms",
        "throttled",
        "tokens",
        "used",
        "waits_until_ms",
    )

    def __init__(self, limit: float, members: int, burst_ms: int, split_burst_ms: int, now_ms: int) -> None:
        """`limit`: the whole quota, per second; `members`: the processors of all gateways.

        `burst_ms`: of how long the tokens are kept, with an agreed share or without other members; `split_burst_ms`: of
        an even split.
        """
        self.limit = limit
        self._members = members
        self._burst_ms = burst_ms
        self._split_burst_ms = split_burst_ms
        self._at_ms = now_ms
        self._leased_until_ms = -1
        self._rate = limit / members
        self.tokens = self.capacity(now_ms)
        """Below 0: a debt."""
        self.used = 0.0
        """In all."""
        self.throttled = 0
        """How often its clients had to wait."""
        self.throttle_ms = 0
        """How long, in all."""
        self.waits_until_ms = -1
        """Until when a client waits."""
        self.is_reported = False
        """Whether its use is reported at present, so that its share follows."""
        self._reported_ms = now_ms
        self._reported_used = 0.0
        self._reported_throttled = 0

    def _has_share(self, now_ms: int) -> bool:
        return self._members == 1 or now_ms <= self._leased_until_ms

    def rate(self, now_ms: int) -> float:
        """Return this processor's share of the quota, per second."""
        return self._rate if self._has_share(now_ms) else self.limit / self._members

    def capacity(self, now_ms: int) -> float:
        """Return the most tokens that there can be."""
        if self._has_share(now_ms):
            return self._rate * self._burst_ms / 1000
        return self.limit / self._members * self._split_burst_ms / 1000

    def change(self, limit: float, members: int, now_ms: int) -> None:
        """Apply another quota, or the same among others: nothing is agreed about it."""
        self._refill(now_ms)
        self.limit = limit
        self._members = members
        self._rate = limit / members
        self._leased_until_ms = -1
        self._refill(now_ms)

    def lease(self, rate: float, now_ms: int) -> None:
        """Have this share from now on, for `LEASE_MS`."""
        self._refill(now_ms)
        self._rate = min(rate, self.limit)
        self._leased_until_ms = now_ms + LEASE_MS
        self._refill(now_ms)

    def _refill(self, now_ms: int) -> None:
        elapsed_ms = now_ms - self._at_ms
        self._at_ms = now_ms
        self.tokens = min(self.capacity(now_ms), self.tokens + self.rate(now_ms) * elapsed_ms / 1000)

    def spend(self, amount: float, now_ms: int) -> int:
        """Use this much, and return how long the client has to wait."""
        self._refill(now_ms)
        self.tokens -= amount
        self.used += amount
        return self._wait_ms(now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Return how long the client has to wait before it may use anything: 0 without a debt."""
        self._refill(now_ms)
        return self._wait_ms(now_ms)

    def _wait_ms(self, now_ms: int) -> int:
        if self.tokens >= 0:
            return 0
        # A share follows the demand within a second: a client that comes to another processor is not to wait for long
        # because that had no demand before. If the share stays small, it waits again.
        rate = max(self.rate(now_ms), self.limit / 2)
        return min(max(1, round(-self.tokens * 1000 / rate)), WAIT_MS_MAX)

    def note_throttle(self, throttle_ms: int, now_ms: int) -> None:
        """A client waits for this long."""
        self.throttled += 1
        self.throttle_ms += throttle_ms
        self.waits_until_ms = max(self.waits_until_ms, now_ms + throttle_ms)

    def take_use(self, quota_id: QuotaId, now_ms: int) -> QuotaUse:
        """Return what was used since the last call, to be reported."""
        used, self._reported_used = self.used - self._reported_used, self.used
        throttled, self._reported_throttled = self.throttled - self._reported_throttled, self.throttled
        elapsed_ms, self._reported_ms = now_ms - self._reported_ms, now_ms
        waiting = int(throttled > 0 or self.waits_until_ms > now_ms)
        return QuotaUse(*quota_id, self.limit, used, elapsed_ms, waiting, self.rate(now_ms))
