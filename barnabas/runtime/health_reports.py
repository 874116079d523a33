"""A member reports its conditions to the active controller, whenever they change or another controller is active."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from barnabas.cluster.keys import Role
from barnabas.metrics.conditions import Condition, ConditionKind, bounded
from barnabas.metrics.family import Sample
from barnabas.metrics.process_families import CONDITIONS
from barnabas.runtime.clock import wall_ms
from barnabas.runtime.contained import CONTAINED, HEALTH, ProcessContainment
from barnabas.runtime.loop.beat import wait_to_beat
from barnabas.runtime.membership import MembershipClient

CHECK_S: Final = 1.0
RECENT_MS: Final = 3_600_000
_DEATHS_KEPT: Final = 100


class HealthReports:
    def __init__(
        self, role: Role, member_id: str, membership: MembershipClient, contained: ProcessContainment = CONTAINED
    ) -> None:
        self._role = role
        self._member_id = member_id
        self._membership = membership
        self._sources: list[Callable[[], Iterable[Condition]]] = [contained.conditions]
        self._present: list[Condition] = []
        self._taken: tuple[list[Condition], int, str] | None = None

    def add_source(self, source: Callable[[], Iterable[Condition]]) -> None:
        """Ask `source` for conditions at every check."""
        self._sources.append(source)

    async def run(self, incarnation: Callable[[], str]) -> None:
        """Check and report until cancelled, once the member is registered as `incarnation`."""
        while True:
            try:
                await self.check(incarnation())
            except Exception as error:
                CONTAINED.contain(HEALTH, error)
            await asyncio.sleep(wait_to_beat(asyncio.get_running_loop().time(), CHECK_S))

    async def check(self, incarnation: str) -> None:
        """Report if something differs from what was taken last; what is not taken is reported by the next check."""
        self._present = bounded([condition for source in self._sources for condition in _ask(source)])
        now = self._present, self._membership.active_revision, incarnation
        if now != self._taken and await self._membership.report_health(
            self._role, self._member_id, incarnation, self._present
        ):
            self._taken = now

    def samples(self) -> Iterator[Sample]:
        for kind in ConditionKind:
            yield Sample(CONDITIONS, (kind.value,), sum(each.kind is kind for each in self._present))


def _ask(source: Callable[[], Iterable[Condition]]) -> list[Condition]:
    """Return nothing for a source that fails: the others have their say."""
    try:
        return list(source())
    except Exception as error:
        CONTAINED.contain(HEALTH, error)
        return []


class RecentDeaths:
    """How often a child process has died and was replaced in the last hour. `name` begins the sentence about it."""

    def __init__(self, name: str, now_ms: Callable[[], int] = wall_ms) -> None:
        self._name = name
        self._now_ms = now_ms
        self._deaths: deque[int] = deque(maxlen=_DEATHS_KEPT)
        self._last_why = ""

    def died(self, exit_code: int) -> None:
        self._deaths.append(self._now_ms())
        self._last_why = f"killed by signal {-exit_code}" if exit_code < 0 else f"exited with code {exit_code}"

    def conditions(self) -> Iterator[Condition]:
        while self._deaths and self._now_ms() - self._deaths[0] >= RECENT_MS:
            self._deaths.popleft()
        count = len(self._deaths)
        if count:
            times = "once" if count == 1 else f"{count} times{' or more' if count == _DEATHS_KEPT else ''}"
            last = datetime.fromtimestamp(self._deaths[-1] / 1000, tz=UTC)
            yield Condition(
                ConditionKind.PROCESS_RESTARTED,
                f"{self._name} was restarted {times} in the last hour, last at {last:%Y-%m-%d %H:%M:%S} UTC: "
                f"{self._last_why}",
            )
