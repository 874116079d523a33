"""What the data process tells when its pod is scraped: in slices, between turns, so that no request waits long."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic_ns
from typing import Final

from barnabas.metrics.family import Measured, Sample
from barnabas.metrics.log_families import LOG_DIRECTORY_FREE_BYTES, LOG_DIRECTORY_TOTAL_BYTES
from barnabas.metrics.request_families import HANDLER_IDLE
from barnabas.metrics.snapshot import pack
from barnabas.runtime.idle import IdlePart, loop_waited_ns
from barnabas.runtime.process_metrics import measures_of_process
from barnabas_logstore.core.logstore import LogstoreCore
from barnabas_logstore.core.observability.partition_metrics_scan import PartitionMetricsScan

PARTITIONS_PER_SLICE: Final = 200
"""Well under a millisecond; a logstore with 10,000 replicas takes 50 slices."""


class Disks:
    """The room on the disks of log directories. A disk that does not answer keeps a thread waiting, and no scrape: what
    it said last is told.
    """

    def __init__(self, log_dirs: Sequence[str]) -> None:
        self._log_dirs = log_dirs
        self._told: dict[str, tuple[int, int]] = {}
        self._is_looking = False

    def look(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            threading.Thread(target=self._look, name="disks", daemon=True).start()

    def _look(self) -> None:
        for path in self._log_dirs:
            try:
                room = os.statvfs(path)
            except OSError:
                self._told.pop(path, None)
            else:
                self._told[path] = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
        self._is_looking = False

    def samples(self) -> Iterator[Sample]:
        for path, (free, total) in sorted(self._told.items()):
            yield Sample(LOG_DIRECTORY_FREE_BYTES, (path,), free)
            yield Sample(LOG_DIRECTORY_TOTAL_BYTES, (path,), total)


class DataMetrics:
    """`tell` gets a snapshot for each time that `asked` is called, if not one for several."""

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
        self._survey: PartitionMetricsScan | None = None

    def add(self, measured: Sequence[Measured]) -> None:
        """Parts of the shell."""
        self._measured += measured

    def serve(self, core: LogstoreCore) -> None:
        """The logs are loaded. Until then what the process costs is all that there is to tell."""
        self._core = core

    def asked(self) -> None:
        self._disks.look()
        if self._survey is not None:
            return
        if self._core is None:
            self._answer([])
            return
        self._survey = self._core.measures.survey()
        self._go_on()

    def _go_on(self) -> None:
        assert self._survey is not None
        assert self._core is not None
        if not self._survey.step(PARTITIONS_PER_SLICE):
            self._loop.call_soon(self._go_on)
            return
        survey, self._survey = self._survey, None
        self._answer([survey, self._core.measures])

    def _answer(self, parts: Sequence[Measured]) -> None:
        self._tell(pack(sample for part in (*self._measured, *parts) for sample in part.samples()))
