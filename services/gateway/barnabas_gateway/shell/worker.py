"""Run work of the core on one thread, started with the first piece: conversions of old message formats, tokens that
may block.

Python's threads share the interpreter: the thread keeps the loop from stopping for as long as a piece takes, not from
getting slower meanwhile.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from time import perf_counter
from typing import Final, Generic, Protocol, TypeVar

from barnabas.runtime.loop.background import start_thread
from barnabas_gateway.shell.containment import WORKER

# How long the thread may hold the interpreter before the loop gets it; Python's own 5 ms would delay each request.
SWITCH_INTERVAL_S: Final = 0.0005
_STOP_S_MAX: Final = 5.0
"""How long the piece in progress is waited for: one that waits for the network must not keep the process."""


class Work(Protocol):
    fault: str
    """The traceback of an internal error: it is set if the work failed."""


WorkT = TypeVar("WorkT", bound=Work)


class Worker(Generic[WorkT]):
    """`on_done` is called on the event loop, with the time in ms that the work took."""

    def __init__(self, name: str, run: Callable[[WorkT], None], on_done: Callable[[WorkT, float], None]) -> None:
        self._name = name
        self._run = run
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[WorkT | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: WorkT) -> None:
        if self._thread is None:
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            self._thread = start_thread(WORKER, self._work, self._name)
        self._queue.put(work)

    def stop(self) -> None:
        """End the thread after the piece in progress; those that wait are not run."""
        if self._thread is None:
            return
        while not self._queue.empty():
            self._queue.get()
        self._queue.put(None)
        self._thread.join(_STOP_S_MAX)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            began = perf_counter()
            try:
                self._run(work)
            except Exception:
                work.fault = traceback.format_exc()
            try:
                self._loop.call_soon_threadsafe(self._on_done, work, (perf_counter() - began) * 1000)
            except RuntimeError:
                if not self._loop.is_closed():
                    raise
                return
