"""How far apart ticks may be: while a logstore is at rest, they have nothing to do.

A tick looks for what is due by the clock: flushes, watermarks that followers do not know yet, retention, a pass of the
cleaner. Most of that is known in advance. Each part says whether anything of it is begun or waits; when nothing is, a
tick would only be a wake-up of the process, which costs more than the tick itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

REST_TICK_MS: Final = 500


class Resting(Protocol):
    """A part of the core that works by the clock."""

    @property
    def is_at_rest(self) -> bool:
        """Whether it has nothing under way that a tick continues, and nothing to begin sooner than REST_TICK_MS."""
        ...


class WaitingFetches(Protocol):
    """Fetches of followers, which a step answers at their time though there is no news for them."""

    def next_deadline_ms(self) -> int | None:
        """Return when the first of them is answered in any case."""
        ...


class Ticks:
    def __init__(self, parts: Sequence[Resting], fetches: WaitingFetches) -> None:
        self._parts = parts
        self._fetches = fetches

    @property
    def is_at_rest(self) -> bool:
        """Whether the next tick may be REST_TICK_MS away, or at `fetch_deadline_ms`."""
        for part in self._parts:  # noqa: SIM110 - asked in every turn at rest, without a generator
            if not part.is_at_rest:
                return False
        return True

    @property
    def fetch_deadline_ms(self) -> int | None:
        """When a step has to look at the fetches that wait."""
        return self._fetches.next_deadline_ms()
