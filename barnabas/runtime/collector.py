"""The garbage collector in the process of an event loop: a little at a time, and in full between turns.

Nearly all that a request leaves behind is freed by its reference counts. A collection looks at everything of its
generation at once, and nothing else runs meanwhile: a full one over a large image, or over the elements of a large
request, would be a turn of its own of a hundred milliseconds. So the young generations are small, and a full collection
happens when the loop has nothing to do: the longer one takes, the longer it is until the next.
"""

from __future__ import annotations

import gc
from time import perf_counter_ns
from typing import Final

_YOUNG_OBJECTS: Final = 5_000
_MIDDLE_COLLECTIONS: Final = 5
"""Collections of the young generation between two of the middle one, which then has 30,000 objects at most."""
_FULL_COLLECTIONS: Final = 10_000
"""Collections of the middle generation between two full ones, where the loop never waits or a full one takes long: so
that cycles do not fill the memory."""
_FULL_WHEN_IDLE_MIN: Final = 100
"""The same where the loop waits: some millions of objects that stayed."""
_FULL_WHEN_IDLE_PER_MS: Final = 50
"""And for each millisecond that the full one before took."""


class Collector:
    __slots__ = ("_due_after",)

    def __init__(self) -> None:
        self._due_after = _FULL_WHEN_IDLE_MIN

    def begin(self) -> None:
        """Call when the process has loaded its code: what exists now lives as long as the process."""
        gc.enable()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _MIDDLE_COLLECTIONS, _FULL_COLLECTIONS)

    def loop_is_idle(self) -> None:
        """The event loop is about to wait: do a full collection if one is due."""
        if gc.get_count()[2] < self._due_after:
            return
        began_ns = perf_counter_ns()
        gc.collect()
        took_ms = (perf_counter_ns() - began_ns) // 1_000_000
        self._due_after = max(_FULL_WHEN_IDLE_MIN, _FULL_WHEN_IDLE_PER_MS * took_ms)


COLLECTOR: Final = Collector()
"""Of this process."""
