"""Runs the core's conversions of old message formats on one thread, made when the first one comes.

Python's threads share the interpreter: the thread keeps the loop from standing still for as long as a conversion takes,
not from getting slower meanwhile.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from time import perf_counter
from typing import Final

from barnabas.runtime.compression import CODECS
from barnabas_gateway.core.model.outputs import Conversion

# How long the thread may keep the interpreter before the loop gets it; Python's own 5 ms would be each request's too.
SWITCH_INTERVAL_S: Final = 0.0005


class ConversionWorker:
    """`on_done` is called on the event loop, with the time in ms that the conversion took."""

    def __init__(self, on_done: Callable[[Conversion, float], None]) -> None:
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Conversion | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, conversion: Conversion) -> None:
        if self._thread is None:
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            self._thread = threading.Thread(target=self._work, name="conversions", daemon=True)
            self._thread.start()
        self._queue.put(conversion)

    def stop(self) -> None:
        """End the thread after what it has begun; what waits is not converted any more."""
        if self._thread is None:
            return
        while not self._queue.empty():
            self._queue.get()
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (conversion := self._queue.get()) is not None:
            began = perf_counter()
            try:
                conversion.run(CODECS)
            except Exception:
                conversion.fault = traceback.format_exc()
            self._loop.call_soon_threadsafe(self._on_done, conversion, (perf_counter() - began) * 1000)
