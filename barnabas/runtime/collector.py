"""Garbage collection in the process of an event loop: a little at a time, and full collections between turns.

Nearly everything that a request leaves behind is freed by reference counts. A collection checks everything of its
generation at once, and nothing else runs meanwhile: a full one over a large image, or over the elements of a large
request, would be a turn of its own of a hundred milliseconds. So the young generations are small, and a full collection
happens when the loop has nothing to do: the longer one takes, the longer it is until the next. While the process holds
a large request, which will soon be freed, there is no collection at all: even one of the youngest generation looks at
every element of a list that is new, 70 ms for some lists of 65,000.
"""

from __future__ import annotations

import gc
from time import perf_counter_ns
from typing import Final

_YOUNG_OBJECTS: Final = 5_000
_MIDDLE_COLLECTIONS: Final = 5
"""Collections of the young generation between two of the middle one, which then has at most 30,000 objects."""
_FULL_COLLECTIONS: Final = 10_000
"""Collections of the middle generation between two full ones, if the loop never waits or a full one takes long: so that
cycles do not fill the memory."""
_FULL_WHEN_IDLE_MIN: Final = 100
"""The same if the loop waits: some millions of objects that stayed."""
_FULL_WHEN_IDLE_PER_MS: Final = 50
"""And for each millisecond that the previous full one took."""


_POSTPONED_OBJECTS_MAX: Final = 4_000_000
"""New objects at which a postponed collection begins all the same: cycles among them would fill the memory. One request
of 131,072 elements has up to a million objects with its response."""


class Collector:
    __slots__ = ("_due_after", "_is_postponed")

    def __init__(self) -> None:
        self._due_after = _FULL_WHEN_IDLE_MIN
        self._is_postponed = False

    def postpone(self, *, while_held: bool) -> None:
        """Call in every turn, with whether the process holds a large request: the tree of 100,000 elements alone takes
        a full collection 40 to 100 ms, and reference counts will free it.
        """
        is_postponed = while_held and gc.get_count()[0] < _POSTPONED_OBJECTS_MAX
        if is_postponed != self._is_postponed:
            self._is_postponed = is_postponed
            if is_postponed:
                gc.disable()
            else:
                gc.enable()

    def begin(self) -> None:
        """Call when the process has loaded its code: objects that exist now live as long as the process."""
        gc.enable()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _MIDDLE_COLLECTIONS, _FULL_COLLECTIONS)

    def loop_is_idle(self) -> None:
        """The event loop is about to wait: run a full collection if one is due."""
        if self._is_postponed or gc.get_count()[2] < self._due_after:
            return
        began_ns = perf_counter_ns()
        gc.collect()
        took_ms = (perf_counter_ns() - began_ns) // 1_000_000
        self._due_after = max(_FULL_WHEN_IDLE_MIN, _FULL_WHEN_IDLE_PER_MS * took_ms)


COLLECTOR: Final = Collector()
"""The collector of this process."""
