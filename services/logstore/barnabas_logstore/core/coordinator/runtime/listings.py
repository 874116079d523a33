"""Lists of everything that a coordinator has: made some entries in each step, one list after the other.

A list has what was there when it was begun, each entry as it is when the list comes to it. So it may have two entries
of different moments, as Kafka's has, whose coordinators list one partition after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

_Asked: TypeAlias = tuple[int, int]
"""The ids of a stream and of a call on it."""
ENTRIES_PER_STEP: Final = 2_000
"""At 5 µs each, with their encoding, which counts as another one."""


class Listings:
    __slots__ = ("_asked", "_current", "_waiting", "faults")

    def __init__(self) -> None:
        self._waiting: deque[tuple[_Asked, Callable[[], Iterator[int]]]] = deque()
        """Those that have not begun, and have no entries yet."""
        self._current: Iterator[int] | None = None
        self._asked: _Asked = (0, 0)
        """Who wants the present one."""
        self.faults: list[tuple[_Asked, Exception]] = []
        """Lists that an unexpected exception has ended; their callers have to be answered."""

    def add(self, asked: _Asked, begin: Callable[[], Iterator[int]]) -> None:
        """Have a list made when those before it are done; `begin` returns what makes it, an entry at a time."""
        self._waiting.append((asked, begin))

    @property
    def has_work(self) -> bool:
        return self._current is not None or len(self._waiting) > 0

    def step(self) -> None:
        """Make some entries."""
        left = ENTRIES_PER_STEP
        while left > 0:
            if self._current is None:
                if not self._waiting:
                    return
                self._asked, begin = self._waiting.popleft()
                self._current = begin()
            try:
                for cost in self._current:
                    left -= cost
                    if left <= 0:
                        break
                else:
                    self._current = None
            except Exception as error:
                self._current = None
                self.faults.append((self._asked, error))

    def take_faults(self) -> list[tuple[_Asked, Exception]]:
        faults, self.faults = self.faults, []
        return faults
