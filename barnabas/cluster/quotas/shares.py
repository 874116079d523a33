"""How the members of a quota agree on their shares of it: what they report, and the owner that decides (ADR 0033).

A member is a processor of a gateway, or a gateway; its owner the gateway's acceptor, or the active controller. A member
that uses a quota reports every `PERIOD_MS` what it has used and how many of its clients wait, and is answered a rate
that holds for `LEASE_MS`. Without a confirmation it falls back to an even split. So nothing is sent for quotas that
are not used, and no owner is needed for what is safe.

The shares are those of max-min fairness: a member gets what it uses, and what the others leave goes to those whose
clients wait. An owner never has more granted at a time than the quota, so that a share grows when the others have
reported that theirs has shrunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PERIOD_MS: Final = 200
LEASE_MS: Final = 1_500
"""How long a share holds, from the report that it answers; a member that is silent for longer has none."""
_GROWTH: Final = 1.05
"""A member whose clients do not wait gets so much of what it uses: what it does not use is lost to the others. When it
wants more it has saved some, and then its clients wait.
"""
_FLOOR: Final = 0.01
"""The least share of a member that reports, as a part of the quota."""


class QuotaId(NamedTuple):
    """A quota's key, and whose use is counted together; an empty name does not matter."""

    key: str
    user: str
    client_id: str


@dataclass(slots=True, frozen=True)
class QuotaUse:
    """What a member has used of one quota since its last report."""

    key: str
    user: str
    client_id: str
    # The whole quota, per second.
    limit: float
    used: float
    elapsed_ms: int
    # How many of the member's own members, or clients, wait; 0: none wants more.
    waiting: int
    # The rate that the member has at present.
    rate: float

    def quota_id(self) -> QuotaId:
        return QuotaId(self.key, self.user, self.client_id)


@dataclass(slots=True, frozen=True)
class ShareQuotasRequest:
    gateway_id: str
    uses: list[QuotaUse] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class ShareQuotasResponse:
    # By the position of the use.
    rates: list[float] = field(default_factory=list)


class Demand(NamedTuple):
    rate: float
    """What is used, per second."""
    waiting: int
    """The weight among those that want more; 0: it does not."""


class _Member:
    __slots__ = ("demand", "granted", "heard_ms")

    def __init__(self) -> None:
        self.demand: Demand | None = None
        self.granted = 0.0
        self.heard_ms = 0


class ShareOwner:
    """Decides about the shares of the members of each quota. Time is passed in, in ms."""

    __slots__ = ("_quotas", "_settled_ms")

    def __init__(self) -> None:
        self._quotas: dict[QuotaId, dict[str, _Member]] = {}
        self._settled_ms = 0

    def begin(self, now_ms: int) -> None:
        """Own the quotas from now on. Another owner may have granted shares, which are confirmed until all of them are
        over or have been reported.
        """
        self._quotas.clear()
        self._settled_ms = now_ms + LEASE_MS

    def report(self, member: str, use: QuotaUse, limit: float, now_ms: int) -> float:
        """Return the rate that a member has from now on. `limit`: of all members of this owner together."""
        members = self._quotas.setdefault(use.quota_id(), {})
        for silent in [name for name, each in members.items() if now_ms - each.heard_ms > LEASE_MS]:
            del members[silent]
        reporting = members.setdefault(member, _Member())
        rate = use.used * 1000 / max(use.elapsed_ms, PERIOD_MS)
        before = reporting.demand
        reporting.demand = Demand(rate if before is None else (before.rate + rate) / 2, use.waiting)
        reporting.heard_ms = now_ms
        if now_ms < self._settled_ms:
            reporting.granted = use.rate
            return use.rate
        demands = {name: each.demand for name, each in members.items() if each.demand is not None}
        wanted = allocate(limit, demands)[member]
        others = sum(each.granted for name, each in members.items() if name != member)
        # Half of it at once, whatever the others have yet to give back: a quota that has just become smaller must not
        # leave a member without anything.
        reporting.granted = max(min(wanted, limit - others), wanted / 2)
        return reporting.granted

    def forget_unused(self, now_ms: int) -> None:
        """Drop the quotas that no member uses any more."""
        for quota_id, members in list(self._quotas.items()):
            if all(now_ms - each.heard_ms > LEASE_MS for each in members.values()):
                del self._quotas[quota_id]


def allocate(limit: float, demands: Mapping[str, Demand]) -> dict[str, float]:
    """Return the share of each member: together the limit.

    In turn, what is left is split by weight, and who wants less than its part gets what it wants; the others share the
    rest. If no member wants all of it, it is split among all.
    """
    wanted = {
        name: None if demand.waiting else max(demand.rate * _GROWTH, limit * _FLOOR) for name, demand in demands.items()
    }
    shares: dict[str, float] = {}
    left, open_members = limit, dict(demands)
    while open_members:
        weight = sum(max(1, each.waiting) for each in open_members.values())
        part = left / weight
        content = [
            name
            for name, each in open_members.items()
            if (want := wanted[name]) is not None and want <= part * max(1, each.waiting)
        ]
        if not content:
            for name, each in open_members.items():
                shares[name] = part * max(1, each.waiting)
            return shares
        for name in content:
            shares[name] = wanted[name] or 0.0
            left -= shares[name]
            del open_members[name]
    scale = limit / sum(shares.values()) if shares else 1.0
    return {name: share * scale for name, share in shares.items()}
