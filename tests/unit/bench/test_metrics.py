"""What pairs say of the cost of metrics."""

from __future__ import annotations

import pytest

from bench.metrics.estimate import Pair, estimate


def test_the_interval_holds_the_mean_and_narrows_with_more_pairs() -> None:
    few = estimate([Pair(41.0, 40.0), Pair(40.4, 40.0)])
    many = estimate([Pair(41.0, 40.0), Pair(40.4, 40.0)] * 20)
    assert few.percent == pytest.approx(1.75)
    assert many.percent == pytest.approx(1.75)
    assert few.percent_low < 0 < many.percent_low < 1.75 < many.percent_high < few.percent_high
    assert (many.median_on_us, many.median_off_us) == (pytest.approx(40.7), 40.0)
