"""What was scraped: samples by series, and what a selector finds of them at a time."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from bench.slow_hop.expressions import Matcher, Selector

Labels = frozenset[tuple[str, str]]

LOOK_BACK_S: Final = 5.0
"""A series whose last sample is older is gone: a target that can't be scraped has none."""


@dataclass(slots=True)
class _Series:
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class Scraped:
    """Times are seconds of any clock, and never go back."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[Labels, _Series]] = {}

    def add(self, name: str, labels: Mapping[str, str], at_s: float, value: float) -> None:
        key = frozenset((label, text) for label, text in labels.items() if text)
        series = self._by_name.setdefault(name, {}).setdefault(key, _Series())
        series.times.append(at_s)
        series.values.append(value)

    def add_page(self, text: str, target: Mapping[str, str], at_s: float) -> None:
        """What a target has answered to a scrape, with the labels of the target."""
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.add(sample.name, {**sample.labels, **target}, at_s, sample.value)

    def at(self, selector: Selector, at_s: float) -> dict[Labels, float]:
        """The last value of each series."""
        found: dict[Labels, float] = {}
        for labels, series in self._selected(selector):
            index = bisect_right(series.times, at_s) - 1
            if index >= 0 and series.times[index] > at_s - LOOK_BACK_S:
                found[labels] = series.values[index]
        return found

    def window(self, selector: Selector, at_s: float) -> Iterator[tuple[Labels, list[float], list[float]]]:
        """The times and values of each series in the selector's range, where there are any."""
        for labels, series in self._selected(selector):
            first = bisect_right(series.times, at_s - selector.range_s)
            end = bisect_right(series.times, at_s)
            if end > first:
                yield labels, series.times[first:end], series.values[first:end]

    def _selected(self, selector: Selector) -> Iterator[tuple[Labels, _Series]]:
        for labels, series in self._by_name.get(selector.name, {}).items():
            if all(_matches(matcher, labels) for matcher in selector.matchers):
                yield labels, series


@cache
def _matches(matcher: Matcher, labels: Labels) -> bool:
    """A label that is not there is empty."""
    value = next((text for label, text in labels if label == matcher.label), "")
    match matcher.operator:
        case "=":
            return value == matcher.value
        case "!=":
            return value != matcher.value
        case "=~":
            return re.fullmatch(matcher.value, value) is not None
        case _:
            return re.fullmatch(matcher.value, value) is None
