"""GatewayShares: the quotas of a gateway between its processors, whose owner the acceptor is, and the controller.

What the processors report is added up, and reported to the controller in turn if there are other gateways; what it
answers is what the processors share. While it does not answer, each gateway has an even part of the quota.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cluster.quotas.shares import LEASE_MS, PERIOD_MS, QuotaId, QuotaUse, ShareOwner


class _SharedQuota:
    """One quota, as the acceptor knows it."""

    __slots__ = ("heard_ms", "leased_until_ms", "limit", "rate", "reported_ms", "used", "waiting")

    def __init__(self, now_ms: int) -> None:
        self.limit = 0.0
        self.used = 0.0
        """Since the last report to the controller."""
        self.reported_ms = now_ms - PERIOD_MS
        self.waiting: dict[str, int] = {}
        """By processor."""
        self.heard_ms = now_ms
        """When a processor last used it."""
        self.rate = 0.0
        self.leased_until_ms = -1

    def rate_here(self, gateways: int, now_ms: int) -> float:
        """Return this gateway's part of the quota."""
        if gateways == 1:
            return self.limit
        return min(self.rate, self.limit) if now_ms <= self.leased_until_ms else self.limit / gateways


class GatewayShares:
    __slots__ = ("_owner", "_quotas", "gateways")

    def __init__(self, now_ms: int) -> None:
        self._owner = ShareOwner()
        self._owner.begin(now_ms)
        self._quotas: dict[QuotaId, _SharedQuota] = {}
        self.gateways = 1

    def reported(self, processor: str, uses: Sequence[QuotaUse], now_ms: int) -> list[float]:
        """Return the rates that a processor has from now on, by the position of its uses."""
        rates = []
        for use in uses:
            quota = self._quotas.get(use.quota_id())
            if quota is None:
                quota = self._quotas[use.quota_id()] = _SharedQuota(now_ms)
            quota.limit = use.limit
            quota.used += use.used
            quota.waiting[processor] = use.waiting
            quota.heard_ms = now_ms
            rates.append(self._owner.report(processor, use, quota.rate_here(self.gateways, now_ms), now_ms))
        return rates

    def is_used(self) -> bool:
        """Whether there is anything to agree with the controller."""
        return self.gateways > 1 and bool(self._quotas)

    def take_uses(self, now_ms: int) -> list[QuotaUse]:
        """Return what this gateway has used since the last call, for the controller."""
        uses = []
        for quota_id, quota in list(self._quotas.items()):
            if now_ms - quota.heard_ms > LEASE_MS:
                del self._quotas[quota_id]
                continue
            elapsed_ms = now_ms - quota.reported_ms
            rate = quota.rate_here(self.gateways, now_ms)
            waiting = sum(quota.waiting.values())
            uses.append(QuotaUse(*quota_id, quota.limit, quota.used, elapsed_ms, waiting, rate))
            quota.used = 0.0
            quota.reported_ms = now_ms
        self._owner.forget_unused(now_ms)
        return uses

    def granted(self, uses: Sequence[QuotaUse], rates: Sequence[float], sent_ms: int) -> None:
        """The controller has answered a report that was sent at `sent_ms`."""
        for use, rate in zip(uses, rates, strict=False):
            quota = self._quotas.get(use.quota_id())
            if quota is not None:
                quota.rate = rate
                quota.leased_until_ms = sent_ms + LEASE_MS
