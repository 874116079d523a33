"""Metrics of the data process, collected at a scrape: in slices, between turns, so that no request waits long."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from time import monotonic_ns
from typing import Final

from barnabas.metrics.family import Measured, Sample
from barnabas.metrics.log_families import LOG_DIRECTORY_FREE_BYTES, LOG_DIRECTORY_TOTAL_BYTES
from barnabas.metrics.request_families import HANDLER_IDLE
from barnabas.metrics.snapshot import pack
from barnabas.runtime.clock import wall_ms
from barnabas.runtime.contained import CONTAINED, SCRAPE
from barnabas.runtime.loop.background import start_thread
from barnabas.runtime.loop.event_loop import loop_waited_ns
from barnabas.runtime.loop.idle import IdlePart
from barnabas.runtime.metrics.process_metrics import measures_of_process
from barnabas_logstore.core.logstore import LogstoreCore
from barnabas_logstore.core.observability.partition_metrics_scan import PartitionMetricsScan
from barnabas_logstore.shell.containment import DISKS

PARTITIONS_PER_SLICE: Final = 200
"""Replicas per slice, well under a millisecond; a logstore with 10,000 replicas takes 50 slices."""


class Disks:
    """Free space on the disks of log directories. A disk that does not respond blocks a thread, and no scrape: its last
    values are reported.
    """

    def __init__(self, log_dirs: Sequence[str]) -> None:
        self._log_dirs = log_dirs
        self._reported: dict[str, tuple[int, int]] = {}
        self._is_looking = False

    def look(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            try:
                start_thread(DISKS, self._look, "disks")
            except RuntimeError:  # no thread can be started now
                self._is_looking = False

    def _look(self) -> None:
        try:
            self._look_at_all()
        finally:
            self._is_looking = False

    def _look_at_all(self) -> None:
        for path in self._log_dirs:
            try:
                room = os.statvfs(path)
            except OSError:
                self._reported.pop(path, None)
            else:
                self._reported[path] = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize

    def samples(self) -> Iterator[Sample]:
        for path, (free, total) in sorted(self._reported.items()):
            yield Sample(LOG_DIRECTORY_FREE_BYTES, (path,), free)
            yield Sample(LOG_DIRECTORY_TOTAL_BYTES, (path,), total)


class DataMetrics:
    """`tell` gets a snapshot for each call of `asked`, or one for several."""

    def __init__(self, log_dirs: Sequence[str], tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._disks = Disks(log_dirs)
        self._measured: list[Measured] = [
            *measures_of_process("data"),
            self._disks,
            IdlePart(HANDLER_IDLE, "data-loop", loop_waited_ns, monotonic_ns),
        ]
        self._core: LogstoreCore | None = None
        self._scan: PartitionMetricsScan | None = None

    def add(self, measured: Sequence[Measured]) -> None:
        """Parts of the shell."""
        self._measured += measured

    def serve(self, core: LogstoreCore) -> None:
        """The logs are loaded. Until then only the metrics of the process are reported."""
        self._core = core

    def asked(self) -> None:
        self._disks.look()
        if self._scan is not None:
            return
        try:
            if self._core is None:
                self._answer([])
                return
            self._scan = self._core.measures.scan_partitions(wall_ms())
            self._scan_on()
        except Exception as error:
            self._failed(error)

    def _go_on(self) -> None:
        try:
            self._scan_on()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """This process has no part in the scrape; the next one begins from the start."""
        self._scan = None
        CONTAINED.contain(SCRAPE, error)

    def _scan_on(self) -> None:
        assert self._scan is not None
        assert self._core is not None
        if not self._scan.step(PARTITIONS_PER_SLICE):
            self._loop.call_soon(self._go_on)
            return
        scan, self._scan = self._scan, None
        self._answer([scan, self._core.measures])

    def _answer(self, parts: Sequence[Measured]) -> None:
        self._tell(pack(sample for part in (*self._measured, *parts) for sample in part.samples()))
