"""The samples of one process as bytes, for the process of its pod that serves scrapes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from barnabas.metrics.catalogue import FAMILIES
from barnabas.metrics.family import Sample
from barnabas.metrics.histogram import Histogram


class _Histogram(msgspec.Struct, array_like=True):
    bounds: tuple[int, ...]
    unit: int
    counts: list[int]
    sum: int


class _Sample(msgspec.Struct, array_like=True):
    family: str
    labels: tuple[str, ...]
    value: float | _Histogram


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[_Sample])


def pack(samples: Iterable[Sample]) -> bytes:
    return _encode([_Sample(sample.family.name, sample.labels, _packed(sample.value)) for sample in samples])


def unpack(data: bytes) -> list[Sample]:
    """Unpack what `pack` has packed in another process of the same pod, and so of the same version."""
    return [Sample(FAMILIES[each.family], each.labels, _unpacked(each.value)) for each in _decoder.decode(data)]


def _packed(value: float | Histogram) -> float | _Histogram:
    """True counts as 1."""
    if isinstance(value, Histogram):
        return _Histogram(value.bounds, value.unit, value.counts, value.sum)
    return float(value)


def _unpacked(value: float | _Histogram) -> float | Histogram:
    if not isinstance(value, _Histogram):
        return value
    histogram = Histogram(value.bounds, value.unit)
    histogram.counts, histogram.sum = value.counts, value.sum
    return histogram
