"""What a child process has contained: its parent hears of it at once, for the conditions of the member."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.processes.messages import MessageSocket

KIND: Final = b"contained"


class ContainedCounts:
    """The child's end; one per process. Any of its threads may contain something."""

    def __init__(self, parent: MessageSocket, *others: Callable[[], Mapping[str, int]]) -> None:
        """`others` return counts by the names of places, of a core: after one of these `tell` is to be called."""
        self._parent = parent
        self._counters = (CONTAINED.counts, *others)
        self._sent: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()
        CONTAINED.on_contained = self._contained

    def _contained(self) -> None:
        with contextlib.suppress(RuntimeError):  # of a thread that outlives the loop
            self._loop.call_soon_threadsafe(self.tell)

    def tell(self) -> None:
        """Send how many are new."""
        counts: Counter[str] = Counter()
        for counter in self._counters:
            counts.update(counter())
        new = counts - self._sent
        if new:
            self._sent = counts
            self._parent.send(KIND, msgspec.json.encode(dict(new)))


def take_counts(payload: bytes) -> None:
    """Take the message of a child, in its parent."""
    CONTAINED.heard(msgspec.json.decode(payload, type=dict[str, int]))
