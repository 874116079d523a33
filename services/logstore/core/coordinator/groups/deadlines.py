"""Deadlines by key, most of which move before they come: heartbeats put theirs off thousands of times a second."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Key = TypeVar("Key")


class Deadlines(Generic[Key]):
    """Each key has one deadline at most. To move it costs a dict entry: the heap hears of it when the old one comes."""

    __slots__ = ("_deadlines", "_heap", "_planned", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[Key, int] = {}
        self._planned: dict[Key, int] = {}
        """When the heap will look at a key, never later than its deadline."""
        self._heap: list[tuple[int, int, Key]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: Key, deadline_ms: int) -> None:
        """From now on this is the key's deadline, earlier or later than the one before."""
        self._deadlines[key] = deadline_ms
        planned_ms = self._planned.get(key)
        if planned_ms is None or deadline_ms < planned_ms:
            self._plan(key, deadline_ms)

    def _plan(self, key: Key, at_ms: int) -> None:
        self._planned[key] = at_ms
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, key))

    def cancel(self, key: Key) -> None:
        """Nothing happens when it has none."""
        self._deadlines.pop(key, None)

    def next_ms(self) -> int | None:
        """When `pop_due` is worth calling; it may find nothing then."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Key | None:
        """The next key whose deadline has come, which has none any more."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            at_ms, _, key = heapq.heappop(heap)
            if self._planned.get(key) != at_ms:
                continue  # It was planned for earlier, and that has been looked at.
            del self._planned[key]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._plan(key, deadline_ms)
                continue
            del self._deadlines[key]
            return key
        return None
