"""How many unexpected exceptions a process has contained in the last hour, from counters that only grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from barnabas.metrics.conditions import Condition, ConditionKind

RECENT_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_PLACES_NAMED_MAX: Final = 5


class RecentExceptions:
    def __init__(self) -> None:
        self._counted: dict[str, int] = {}
        self._recent: deque[tuple[int, str, int]] = deque()
        """The minute, the place, and how many; one entry for each place and minute at most."""

    def follow(self, counts: Mapping[str, int], now_ms: int) -> None:
        """Take the present counts by the names of places; `now_ms` is of a monotonic clock."""
        minute = now_ms // _MINUTE_MS
        for place, count in counts.items():
            new = count - self._counted.get(place, 0)
            if new > 0:
                self._counted[place] = count
                self._add(minute, place, new)
        while self._recent and (minute - self._recent[0][0]) * _MINUTE_MS >= RECENT_MS:
            self._recent.popleft()

    def _add(self, minute: int, place: str, new: int) -> None:
        for index in range(len(self._recent) - 1, -1, -1):
            known_minute, known_place, count = self._recent[index]
            if known_minute != minute:
                break
            if known_place == place:
                self._recent[index] = (minute, place, count + new)
                return
        self._recent.append((minute, place, new))

    def conditions(self) -> list[Condition]:
        by_place: dict[str, int] = {}
        for _, place, count in self._recent:
            by_place[place] = by_place.get(place, 0) + count
        if not by_place:
            return []
        total = sum(by_place.values())
        most = sorted(by_place.items(), key=_most_first)
        where = ", ".join([f"{place} ({count})" for place, count in most[:_PLACES_NAMED_MAX]])
        exceptions = "1 unexpected exception was" if total == 1 else f"{total} unexpected exceptions were"
        text = f"{exceptions} contained in the last hour, at {where}: its log has the tracebacks"
        return [Condition(ConditionKind.CONTAINED_EXCEPTION, text)]


def _most_first(counted: tuple[str, int]) -> tuple[int, str]:
    place, count = counted
    return -count, place
