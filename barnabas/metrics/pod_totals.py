"""PodTotals: what the processes of a pod have told, as one; counters never fall, whoever of them dies.

Counters and histograms are sums over all processes that ever were. One that does not answer this time counts as it did
the last time; one that is gone is kept as a sum, its gauges are forgotten. Gauges of one family and labels are added up
over those that have answered; where the processes are to be told apart, a label says which it is.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from barnabas.metrics.family import Family, Kind, Sample
from barnabas.metrics.histogram import Histogram

_Key = tuple[str, tuple[str, ...]]


class _Sums:
    """By family and labels, in the order of their first sample."""

    __slots__ = ("_families", "_values")

    def __init__(self) -> None:
        self._families: dict[_Key, Family] = {}
        self._values: dict[_Key, float | Histogram] = {}

    def add_sample(self, sample: Sample) -> None:
        key = (sample.family.name, sample.labels)
        known = self._values.get(key)
        if isinstance(sample.value, Histogram):
            if known is None:
                self._families[key] = sample.family
                known = self._values[key] = Histogram(sample.value.bounds, sample.value.unit)
            assert isinstance(known, Histogram), f"{sample.family.name} is a histogram"
            known.merge(sample.value)
            return
        assert not isinstance(known, Histogram), f"{sample.family.name} is no histogram"
        self._families[key] = sample.family
        self._values[key] = sample.value + (known or 0)

    def samples(self) -> list[Sample]:
        return [Sample(self._families[key], key[1], value) for key, value in self._values.items()]


class PodTotals:
    """`process` tells one process from every other one, those before it included: a serial number, not its place."""

    def __init__(self) -> None:
        self._last: dict[Hashable, list[Sample]] = {}
        self._of_the_gone = _Sums()

    def heard(self, process: Hashable, samples: Iterable[Sample]) -> None:
        self._last[process] = list(samples)

    def gone(self, process: Hashable) -> None:
        """One that has told nothing leaves nothing behind."""
        for sample in self._last.pop(process, ()):
            if sample.family.kind is not Kind.GAUGE:
                self._of_the_gone.add_sample(sample)

    def samples(self, answered: Collection[Hashable]) -> list[Sample]:
        """Of all; gauges of those only that have `answered` this time."""
        sums = _Sums()
        for sample in self._of_the_gone.samples():
            sums.add_sample(sample)
        for process, samples in self._last.items():
            for sample in samples:
                if sample.family.kind is not Kind.GAUGE or process in answered:
                    sums.add_sample(sample)
        return sums.samples()
