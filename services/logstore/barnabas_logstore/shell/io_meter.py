"""IoMeter: durations of effects on the disks, by the thread that carries them out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.metrics.family import Sample
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.log_families import FLUSH_TIME, IO_TIME
from barnabas_logstore.core.storage.effects import (
    FlushEffect,
    ReadBatchesEffect,
    StorageEffect,
    ValidateBatchEffect,
    WriteEffect,
)

_SUFFIX: Final = "Effect"
_LABELS: Final[dict[type[StorageEffect], str]] = {ReadBatchesEffect: "read", ValidateBatchEffect: "openbatch"}
"""Labels that are not the name of the class: dashboards know them."""


class IoMeter:
    """The durations of one thread, which is the only writer; readers may miss what is being added."""

    def __init__(self, by: str) -> None:
        self._by = by
        self._times: dict[type[StorageEffect], Histogram] = {}
        self._flushes = Histogram()
        self.busy_ns = 0

    def add(self, effect: StorageEffect, took_ns: int) -> None:
        self.busy_ns += took_ns
        kind = type(effect)
        times = self._times.get(kind)
        if times is None:
            times = self._times[kind] = Histogram()
        times.add(took_ns // 1000)
        if kind is FlushEffect or (isinstance(effect, WriteEffect) and effect.flush is not None):
            self._flushes.add(took_ns // 1000)

    def samples(self) -> Iterator[Sample]:
        for kind, times in list(self._times.items()):
            label = _LABELS.get(kind) or kind.__name__.removesuffix(_SUFFIX).lower()
            yield Sample(IO_TIME, (label, self._by), times)
        yield Sample(FLUSH_TIME, (), self._flushes)
