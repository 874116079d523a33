"""PodMetrics: the samples of a pod, from the process that serves scrapes and those that it asks over socket pairs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from barnabas import __version__
from barnabas.metrics.family import Measured, Sample
from barnabas.metrics.pod_totals import PodTotals
from barnabas.metrics.process_families import BUILD_INFO, PROCESSES, SILENT_PROCESSES
from barnabas.metrics.snapshot import unpack

ANSWER_S_MAX: Final = 2.0
"""How long the other processes may take; a scrape waits longer than that (`endpoint.COLLECT_S_MAX`)."""
_THIS: Final = -1


class PodMetrics:
    """Runs on the event loop of the process that serves scrapes. Other processes have serial numbers of the
    caller's.
    """

    def __init__(self, role: str, member_id: str, measured: Sequence[Measured]) -> None:
        """`measured`: the parts of this process."""
        self._build_info = Sample(BUILD_INFO, (__version__, role, member_id), 1.0)
        self._measured = list(measured)
        self._totals = PodTotals()
        self._askable: dict[int, Callable[[], None]] = {}
        self._awaited: set[int] = set()
        self._all_answered: asyncio.Event | None = None
        self._silences = 0

    def measure(self, *parts: Measured) -> None:
        """Add more parts of this process."""
        self._measured += parts

    def add_process(self, process: int, ask: Callable[[], None]) -> None:
        """Add another process of the pod: `ask` makes it answer by `heard`."""
        self._askable[process] = ask

    def heard(self, process: int, snapshot: bytes) -> None:
        self._totals.heard(process, unpack(snapshot))
        self._no_longer_awaited(process)

    def gone(self, process: int) -> None:
        """Its counts stay."""
        self._askable.pop(process, None)
        self._totals.gone(process)
        self._no_longer_awaited(process)

    def _no_longer_awaited(self, process: int) -> None:
        self._awaited.discard(process)
        if not self._awaited and self._all_answered is not None:
            self._all_answered.set()

    async def collect(self) -> list[Sample]:
        """One at a time. A process that does not answer in time is left out and counted."""
        asked = list(self._askable.items())
        self._awaited = {process for process, _ in asked}
        self._all_answered = asyncio.Event()
        for _, ask in asked:
            ask()
        if asked:
            try:
                await asyncio.wait_for(self._all_answered.wait(), ANSWER_S_MAX)
            except TimeoutError:
                self._silences += len(self._awaited)
        answered = {_THIS, *(process for process, _ in asked if process not in self._awaited)}
        self._awaited = set()
        self._totals.heard(_THIS, [sample for part in self._measured for sample in part.samples()])
        return [
            self._build_info,
            Sample(PROCESSES, (), float(len(answered))),
            Sample(SILENT_PROCESSES, (), float(self._silences)),
            *self._totals.samples(answered),
        ]
