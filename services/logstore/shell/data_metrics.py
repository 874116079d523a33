"""What the data process tells when its pod is scraped: in slices, between turns, so that no request waits long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from barnabas.metrics.family import Measured
from barnabas.metrics.snapshot import pack
from barnabas.runtime.process_metrics import ProcessMeter
from services.logstore.core.logstore import LogstoreCore
from services.logstore.core.survey import Survey

PARTITIONS_PER_SLICE = 200
"""Well under a millisecond; a logstore with 10,000 replicas takes 50 slices."""


class DataMetrics:
    """`tell` gets a snapshot for each time that `asked` is called, if not one for several."""

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._measured: list[Measured] = [ProcessMeter("data")]
        self._core: LogstoreCore | None = None
        self._survey: Survey | None = None

    def add(self, measured: Sequence[Measured]) -> None:
        """Parts of the shell."""
        self._measured += measured

    def serve(self, core: LogstoreCore) -> None:
        """The logs are loaded. Until then what the process costs is all that there is to tell."""
        self._core = core

    def asked(self) -> None:
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
