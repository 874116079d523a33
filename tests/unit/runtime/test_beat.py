"""The beat: the same moments for all processes of a host."""

from __future__ import annotations

import pytest

from barnabas.runtime.loop.beat import next_beat, wait_to_beat


@pytest.mark.parametrize(
    ("now_s", "due_s"), [(0.0, 0.5), (0.3, 0.5), (0.4995, 1.0), (0.5, 1.0), (123_456.25, 123_456.5)]
)
def test_the_next_multiple_of_a_beat_is_due_and_never_the_present_one(now_s: float, due_s: float) -> None:
    assert next_beat(now_s) == due_s


def test_two_that_begin_at_different_moments_meet_at_the_next_beat() -> None:
    assert next_beat(17.01) == next_beat(17.4) == 17.5


def test_a_beat_may_be_shorter() -> None:
    assert next_beat(1.0, 20) == pytest.approx(1.02)


@pytest.mark.parametrize(
    ("now_s", "wait_s", "shortened_s"),
    [(4.0, 2.0, 2.0), (4.125, 2.0, 1.875), (4.4375, 2.0, 1.5625), (4.0625, 0.75, 0.4375)],
)
def test_a_wait_is_shortened_so_that_it_ends_at_a_beat(now_s: float, wait_s: float, shortened_s: float) -> None:
    assert wait_to_beat(now_s, wait_s) == shortened_s


@pytest.mark.parametrize(("now_s", "wait_s"), [(4.125, 0.25), (4.4375, 0.125)])
def test_a_wait_that_is_shorter_than_a_beat_is_not_shortened_by_half(now_s: float, wait_s: float) -> None:
    """Leases may be short: renewals must not follow each other without a pause."""
    assert wait_to_beat(now_s, wait_s) >= wait_s / 2
