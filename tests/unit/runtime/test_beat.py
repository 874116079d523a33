"""The beat: the same moments for all processes of a host."""

from __future__ import annotations

import pytest

from barnabas.runtime.beat import next_beat


@pytest.mark.parametrize(
    ("now_s", "due_s"), [(0.0, 0.5), (0.3, 0.5), (0.4995, 1.0), (0.5, 1.0), (123_456.25, 123_456.5)]
)
def test_the_next_multiple_of_a_beat_is_due_and_never_the_present_one(now_s: float, due_s: float) -> None:
    assert next_beat(now_s) == due_s


def test_two_that_begin_at_different_moments_meet_at_the_next_beat() -> None:
    assert next_beat(17.01) == next_beat(17.4) == 17.5


def test_a_beat_may_be_shorter() -> None:
    assert next_beat(1.0, 20) == pytest.approx(1.02)
