"""Carry out the core's effects: small ones in place, the others on `num.io.threads` threads that only do byte I/O.

A hop to a thread and back costs more than a small write does. Measured on two shared cores, writes into the page cache:

| bytes | in place | by an idle thread | by a thread while the loop is busy in turns of 1 ms |
|---|---|---|---|
| 1 KiB | 2 µs | 20–40 µs | 1 ms |
| 64 KiB | 14 µs | 60–80 µs | 1 ms |
| 256 KiB | 60–80 µs | 75–115 µs | 1 ms (p99 6–10 ms); with the default switch interval 4–20 ms (p99 over 100 ms) |

A worker also takes the interpreter lock twice for each effect, and the loop has to give it up. So what fits
IN_PLACE_BYTES_MAX per turn is done in place, if it can't block: writes without a flush, and reads that the page cache
answers at once (RWF_NOWAIT). A write can still block, when the kernel throttles processes that dirty pages faster than
the disk accepts them: after a slow one, workers do all writes for a while, so that the loop stops at most once per such
period. A write is slow if it has waited for something; on a busy machine many more take long because another thread got
the core, and more threads would only make that worse. The last column is the reason why the switch interval is shorter
than the default here.

The core has at most one write per log in progress, so the order of workers does not matter.
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
from functools import partial
from time import monotonic_ns, perf_counter_ns
from typing import Final

from barnabas.metrics.family import Sample
from barnabas.metrics.log_families import IO_QUEUE_SIZE
from barnabas.metrics.request_families import HANDLER_IDLE
from barnabas.ports.disk import Disk, DiskError, DiskErrorKind, DiskFile
from barnabas.runtime.loop.background import start_thread
from barnabas.runtime.loop.idle import IdlePart
from barnabas_logstore.core.storage.effect_execution import EffectResult, execute, execute_in_place
from barnabas_logstore.core.storage.effects import (
    ReadBatchesEffect,
    ReadEffect,
    StorageEffect,
    WriteEffect,
)
from barnabas_logstore.core.storage.file_parts import UnopenedFile
from barnabas_logstore.shell.containment import IO_THREAD
from barnabas_logstore.shell.io_meter import IoMeter
from barnabas_logstore.shell.open_files import PosixFile

IN_PLACE_BYTES_MAX: Final = 1024 * 1024
"""A batch as large as `message.max.bytes` allows by default: 0.3 to 0.6 ms of a turn."""
CHECKED_BYTES: Final = 128 * 1024
IN_PLACE_READS_MAX: Final = 8
"""Of one effect: a search over more headers is a worker's."""
SLOW_WRITE_NS: Final = 2_000_000
AFTER_SLOW_WRITE_NS: Final = 1_000_000_000
# How long a worker that has its bytes waits for the interpreter lock before the loop has to release it.
SWITCH_INTERVAL_S: Final = 0.0005

_ONE_BYTE: Final = [bytearray(1)]
"""What the event loop reads into where it only wants to know whether there is a byte."""

Outcome = EffectResult | DiskError
Completion = tuple[StorageEffect, Outcome]
EffectFault = tuple[StorageEffect, Exception]
"""An unexpected exception in the work of an effect."""


class IoWorkers:
    """Created and used on the event loop; the threads access only the queues."""

    def __init__(self, disk: Disk, threads: int) -> None:
        self._disk = disk
        self._on_done: Callable[[Sequence[Completion]], None] | None = None
        self._on_faults: Callable[[Sequence[EffectFault]], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[StorageEffect | None] = queue.SimpleQueue()
        self._done: deque[Completion] = deque()
        self._faults: deque[EffectFault] = deque()
        self._is_delivery_due = False
        self._in_place_bytes_left = IN_PLACE_BYTES_MAX
        self._writes_in_place_from_ns = 0
        self._switches = -1
        """How often this thread had waited before the first write of the turn; -1 before that."""
        self._submitted = self._delivered = 0
        self._own_meter = IoMeter("loop")
        self._meters = [IoMeter("worker") for _ in range(threads)]
        self._idle = IdlePart(HANDLER_IDLE, "io-workers", self._idle_ns, monotonic_ns)
        self._threads: list[threading.Thread] = []

    def start(
        self, on_done: Callable[[Sequence[Completion]], None], on_faults: Callable[[Sequence[EffectFault]], None]
    ) -> None:
        """`on_done` is called on the event loop with all effects that have been finished since the last call,
        `on_faults` with those whose work has met an unexpected exception.
        """
        self._on_done = on_done
        self._on_faults = on_faults
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._threads = [
            start_thread(IO_THREAD, partial(self._work, meter), f"io-{index}")
            for index, meter in enumerate(self._meters)
        ]

    def stop(self) -> None:
        """End the threads, once they have done what they were given."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def begin_turn(self) -> None:
        """Begin a turn of the loop, with a full budget for effects in place."""
        self._in_place_bytes_left = IN_PLACE_BYTES_MAX
        self._switches = -1

    def run_in_place(self, effect: StorageEffect) -> Outcome | None:
        """Return the outcome of an effect that is faster done than handed over; None if it is not, and nothing was
        done. An unexpected exception is raised.
        """
        match effect:
            case WriteEffect(flush=None) if effect.byte_count <= self._in_place_bytes_left:
                began_ns = perf_counter_ns()
                if began_ns < self._writes_in_place_from_ns:
                    return None
                if self._switches < 0:
                    self._switches = _voluntary_switches()
                self._in_place_bytes_left -= effect.byte_count
                outcome = _run(self._disk, effect)
                ended_ns = perf_counter_ns()
                self._own_meter.add(effect, ended_ns - began_ns)
                if ended_ns - began_ns > SLOW_WRITE_NS and _voluntary_switches() > self._switches:
                    self._writes_in_place_from_ns = ended_ns + AFTER_SLOW_WRITE_NS
                return outcome
            case ReadEffect():
                return self._read_in_place(effect, effect.file)
            case ReadBatchesEffect():
                return self._read_in_place(effect, effect.part.file)
            case _:
                return None

    def _read_in_place(self, effect: ReadEffect | ReadBatchesEffect, file: DiskFile | UnopenedFile) -> Outcome | None:
        if isinstance(file, UnopenedFile):
            return None
        cached = _CachedFile(file, self._in_place_bytes_left)
        try:
            outcome: Outcome = execute_in_place(effect, cached)
        except BlockingIOError:
            return None
        except OSError as error:
            return DiskError(DiskErrorKind.IO, "read", f"{cached.path}: {error}")
        self._in_place_bytes_left = cached.bytes_left
        return outcome

    def submit(self, effect: StorageEffect) -> None:
        """Pass an effect to the workers; it comes back by `on_done`."""
        self._submitted += 1
        self._queue.put(effect)

    def samples(self) -> Iterator[Sample]:
        yield Sample(IO_QUEUE_SIZE, (), self._submitted - self._delivered)
        for meter in (self._own_meter, *self._meters):
            yield from meter.samples()
        yield from self._idle.samples()

    def _idle_ns(self) -> int:
        """Return the average idle time of one worker; an effect in progress counts once it is done."""
        busy_ns = sum(meter.busy_ns for meter in self._meters)
        return monotonic_ns() - busy_ns // max(1, len(self._meters))

    def _work(self, meter: IoMeter) -> None:
        while (effect := self._queue.get()) is not None:
            began_ns = perf_counter_ns()
            try:
                self._done.append((effect, _run(self._disk, effect)))
            except Exception as fault:
                # A worker that ended because of it would leave a partition waiting, under a lease that is alive.
                self._faults.append((effect, fault))
            meter.add(effect, perf_counter_ns() - began_ns)
            # One wake-up of the loop for all that is done by the time it runs. The loop clears the flag before it
            # empties the queue, so nothing that is added while the flag is set can be missed.
            if not self._is_delivery_due:
                self._is_delivery_due = True
                try:
                    self._loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    if not self._loop.is_closed():
                        raise
                    return

    def _deliver(self) -> None:
        self._is_delivery_due = False
        completions = []
        while self._done:
            completions.append(self._done.popleft())
        faults = []
        while self._faults:
            faults.append(self._faults.popleft())
        self._delivered += len(completions) + len(faults)
        if completions and self._on_done is not None:
            self._on_done(completions)
        if faults and self._on_faults is not None:
            self._on_faults(faults)


def _voluntary_switches() -> int:
    """Return how often this thread has waited for something; not how often others were given its core."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _run(disk: Disk, effect: StorageEffect) -> Outcome:
    try:
        return execute(disk, effect)
    except DiskError as known:
        return known
    except OSError as error:
        return DiskError(DiskErrorKind.IO, type(effect).__name__, str(error))


class _CachedFile:
    """The part of a file that is in the page cache."""

    __slots__ = ("_descriptor", "_reads_left", "bytes_left", "path")

    def __init__(self, file: DiskFile, bytes_max: int) -> None:
        """`bytes_max` may be read."""
        self._descriptor = file.descriptor if isinstance(file, PosixFile) else -1
        self._reads_left = IN_PLACE_READS_MAX
        self.path = file.path
        self.bytes_left = bytes_max

    def load_at(self, position: int, length: int) -> int:
        """Return `length` if the bytes are there, as far as a byte of every 128 KiB tells: what the kernel reads and
        drops at a time is not much smaller. Raises BlockingIOError otherwise, and OSError.
        """
        for each in (*range(position, position + length - 1, CHECKED_BYTES), position + length - 1):
            if not self._read_into(_ONE_BYTE, each):
                raise BlockingIOError
        return length

    def read_at(self, position: int, length: int) -> memoryview:
        """Return the bytes; raises BlockingIOError if that would take long, and OSError."""
        self.bytes_left -= length
        self._reads_left -= 1
        if self.bytes_left < 0 or self._reads_left < 0:
            raise BlockingIOError
        buffer = bytearray(length)
        if self._read_into([buffer], position) < length:
            # Not all of it is there, or the file ends: only a worker can tell.
            raise BlockingIOError
        return memoryview(buffer)

    def _read_into(self, buffers: list[bytearray], position: int) -> int:
        if self._descriptor < 0:
            raise BlockingIOError
        try:
            return os.preadv(self._descriptor, buffers, position, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                raise BlockingIOError from error
            raise
