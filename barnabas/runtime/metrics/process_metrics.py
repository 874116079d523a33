"""Resource usage of a process, from /proc and Python itself, under the names that every Prometheus client uses."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from barnabas.metrics.family import Measured, Sample
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.process_families import (
    CPU_SECONDS,
    GC_COLLECTIONS,
    GC_SECONDS,
    LOOP_LATENESS,
    LOOP_LONGEST_TURN,
    LOOP_LONGEST_TURN_CPU,
    MAX_FDS,
    OPEN_FDS,
    RESIDENT_BYTES,
    START_TIME_SECONDS,
)
from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.loop.beat import next_beat
from barnabas.runtime.loop.event_loop import take_longest_turn_cpu_ns, take_longest_turn_ns
from barnabas.runtime.loop.idle import LongestTurn
from barnabas.runtime.stream_meter import STREAMS

_PAGE_BYTES: Final = resource.getpagesize()
_OWN: Final = Path("/proc/self")


class LoopMeter:
    """How late this event loop runs. Beyond the time for its own work, that is time in which the process was not
    running: stopped, swapped out, or without its share of the CPU.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._lateness = Histogram()
        self._due_s = next_beat(self._loop.time())
        self._loop.call_at(self._due_s, self._look)

    def _look(self) -> None:
        now_s = self._loop.time()
        self._lateness.add(max(0, int((now_s - self._due_s) * 1_000_000)))
        self._due_s = next_beat(now_s)
        self._loop.call_at(self._due_s, self._look)

    def samples(self) -> Iterator[Sample]:
        yield Sample(LOOP_LATENESS, (self._name,), self._lateness)


def measures_of_process(name: str) -> list[Measured]:
    """Return the metrics that every process reports; call it once, on its event loop. `name` identifies it within its
    pod.
    """
    longest_turn = LongestTurn(LOOP_LONGEST_TURN, name, take_longest_turn_ns, time.monotonic_ns)
    most_cpu = LongestTurn(LOOP_LONGEST_TURN_CPU, name, take_longest_turn_cpu_ns, time.monotonic_ns)
    return [ProcessMeter(name), LoopMeter(name), longest_turn, most_cpu, STREAMS, CONTAINED]


class ProcessMeter:
    """Resource usage of this process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started_s = time.time()
        self._gc_began_s = 0.0
        self._gc_seconds = 0.0
        gc.callbacks.append(self._collecting)

    def _collecting(self, phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            self._gc_began_s = time.monotonic()
        else:
            self._gc_seconds += time.monotonic() - self._gc_began_s

    def samples(self) -> Iterator[Sample]:
        name = (self._name,)
        yield Sample(CPU_SECONDS, name, time.process_time())
        yield Sample(RESIDENT_BYTES, name, float(int((_OWN / "statm").read_text().split()[1]) * _PAGE_BYTES))
        yield Sample(OPEN_FDS, name, float(len(os.listdir(_OWN / "fd")) - 1))
        yield Sample(MAX_FDS, name, float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
        yield Sample(START_TIME_SECONDS, name, self._started_s)
        yield Sample(GC_SECONDS, name, self._gc_seconds)
        for generation, statistics in enumerate(gc.get_stats()):
            yield Sample(GC_COLLECTIONS, (self._name, str(generation)), float(statistics["collections"]))
