"""Carries out the core's effects: small ones in place, the others on `num.io.threads` threads that do byte I/O only.

A hop to a thread and back costs more than a small write does. Measured on two shared cores, writes into the page cache:

| bytes | in place | by an idle thread | by a thread while the loop is busy in turns of 1 ms |
|---|---|---|---|
| 1 KiB | 2 µs | 20–40 µs | 1 ms |
| 64 KiB | 14 µs | 60–80 µs | 1 ms |
| 256 KiB | 60–80 µs | 75–115 µs | 1 ms (p99 6–10 ms); with the default switch interval 4–20 ms (p99 over 100 ms) |

So what fits IN_PLACE_BYTES_MAX per turn is done in place, when it can't block: writes without a flush, and reads that
the page cache answers at once (RWF_NOWAIT). A write can still block, when the kernel throttles whoever dirties pages
faster than the disk takes them: after one that was slow, workers do all writes for a while, so that the loop stops at
most once per such while. Slow is one that has waited for something; on a busy machine many more take long because the
core was given to somebody else, of which workers would only make more. The last column is why the switch interval is
shorter than the default here.

One write per log is under way at most (the core sees to that), so the order of workers does not matter.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import resource
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic_ns, perf_counter_ns
from typing import Final

from barnabas.metrics.family import Sample
from barnabas.metrics.log_families import IO_QUEUE_SIZE
from barnabas.metrics.request_families import HANDLER_IDLE
from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas.runtime.idle import IdlePart
from barnabas.runtime.logs import get_logger
from barnabas_logstore.core.storage.effect_execution import EffectResult, execute, failed_by_fault
from barnabas_logstore.core.storage.effects import ReadEffect, StorageEffect, WriteEffect
from barnabas_logstore.shell.io_meter import IoMeter
from barnabas_logstore.shell.open_files import PosixFile

IN_PLACE_BYTES_MAX: Final = 256 * 1024
SLOW_WRITE_NS: Final = 2_000_000
AFTER_SLOW_WRITE_NS: Final = 1_000_000_000
# How long a worker that has its bytes asks for the interpreter lock before the loop has to let go of it.
SWITCH_INTERVAL_S: Final = 0.0005

_log = get_logger("io")

Outcome = EffectResult | DiskError
Completion = tuple[StorageEffect, Outcome]


class IoWorkers:
    """Made and used on the event loop; the threads touch nothing but the two queues."""

    def __init__(self, disk: Disk, threads: int) -> None:
        self._disk = disk
        self._on_done: Callable[[Sequence[Completion]], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[StorageEffect | None] = queue.SimpleQueue()
        self._done: deque[Completion] = deque()
        self._is_delivery_due = False
        self._in_place_bytes_left = IN_PLACE_BYTES_MAX
        self._writes_in_place_from_ns = 0
        self._switches = 0
        self._submitted = self._delivered = 0
        self._own_meter = IoMeter("loop")
        self._meters = [IoMeter("worker") for _ in range(threads)]
        self._idle = IdlePart(HANDLER_IDLE, "io-workers", self._idle_ns, monotonic_ns)
        self._threads = [
            threading.Thread(target=self._work, args=(meter,), name=f"io-{index}", daemon=True)
            for index, meter in enumerate(self._meters)
        ]

    def start(self, on_done: Callable[[Sequence[Completion]], None]) -> None:
        """`on_done` is called on the event loop with all effects that have been finished since it was called last."""
        self._on_done = on_done
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads, once they have done what they were given."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def begin_turn(self) -> None:
        """A new turn of the loop has as much time for effects in place as any other."""
        self._in_place_bytes_left = IN_PLACE_BYTES_MAX
        self._switches = _voluntary_switches()

    def run_in_place(self, effect: StorageEffect) -> Outcome | None:
        """The outcome of an effect that is quicker done than handed over; None when it is not, and nothing was done."""
        match effect:
            case WriteEffect(flush=None) if effect.byte_count <= self._in_place_bytes_left:
                began_ns = perf_counter_ns()
                if began_ns < self._writes_in_place_from_ns:
                    return None
                self._in_place_bytes_left -= effect.byte_count
                outcome = _run(self._disk, effect)
                ended_ns = perf_counter_ns()
                self._own_meter.add(effect, ended_ns - began_ns)
                if ended_ns - began_ns > SLOW_WRITE_NS and _voluntary_switches() > self._switches:
                    self._writes_in_place_from_ns = ended_ns + AFTER_SLOW_WRITE_NS
                return outcome
            case ReadEffect() if effect.length <= self._in_place_bytes_left:
                self._in_place_bytes_left -= effect.length
                return _read_cached(effect)
            case _:
                return None

    def submit(self, effect: StorageEffect) -> None:
        """Hand an effect to the workers; it comes back by `on_done`."""
        self._submitted += 1
        self._queue.put(effect)

    def samples(self) -> Iterator[Sample]:
        yield Sample(IO_QUEUE_SIZE, (), self._submitted - self._delivered)
        for meter in (self._own_meter, *self._meters):
            yield from meter.samples()
        yield from self._idle.samples()

    def _idle_ns(self) -> int:
        """Of one worker, on average; what is being done counts once it is done."""
        busy_ns = sum(meter.busy_ns for meter in self._meters)
        return monotonic_ns() - busy_ns // max(1, len(self._meters))

    def _work(self, meter: IoMeter) -> None:
        while (effect := self._queue.get()) is not None:
            began_ns = perf_counter_ns()
            outcome = _run(self._disk, effect)
            meter.add(effect, perf_counter_ns() - began_ns)
            self._done.append((effect, outcome))
            # One hop to the loop for all that is done by the time it gets to it. The loop clears the flag before it
            # empties the queue, so nothing that is put there while the flag is set can be missed.
            if not self._is_delivery_due:
                self._is_delivery_due = True
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_delivery_due = False
        completions = []
        while self._done:
            completions.append(self._done.popleft())
        self._delivered += len(completions)
        if completions and self._on_done is not None:
            self._on_done(completions)


def _voluntary_switches() -> int:
    """How often this thread has waited for something; not, how often others were given its core."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _run(disk: Disk, effect: StorageEffect) -> Outcome:
    try:
        return execute(disk, effect)
    except DiskError as error:
        return error
    except OSError as error:
        return DiskError(DiskErrorKind.IO, type(effect).__name__, str(error))
    except Exception as fault:
        # A worker that ended by it would leave a partition waiting for ever, under a lease that is alive.
        _log.exception("a fault in the work on a log", effect=type(effect).__name__)
        return failed_by_fault(effect, fault)


def _read_cached(effect: ReadEffect) -> Outcome | None:
    """The bytes when all of them are in the page cache."""
    file = effect.file
    if not isinstance(file, PosixFile):
        return None
    buffer = bytearray(effect.length)
    try:
        count = os.preadv(file.descriptor, [buffer], effect.position, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EOPNOTSUPP):
            return DiskError(DiskErrorKind.IO, "read", f"{file.path}: {error}")
        return None
    return bytes(buffer) if count == effect.length else None
