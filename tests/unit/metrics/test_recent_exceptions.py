"""Exceptions of the last hour, from counters that only grow."""

from __future__ import annotations

from barnabas.metrics.recent_exceptions import RECENT_MS, RecentExceptions

PLACES = [f"gateway.place_{number}" for number in range(7)]


def text_of(recent: RecentExceptions) -> str:
    (condition,) = recent.conditions()
    return condition.text


def test_each_counts_for_an_hour() -> None:
    recent = RecentExceptions()
    recent.follow({PLACES[0]: 0}, 0)
    assert recent.conditions() == []
    recent.follow({PLACES[0]: 1}, 1_000)
    assert text_of(recent).startswith("1 unexpected exception was contained in the last hour, at gateway.place_0 (1): ")
    recent.follow({PLACES[0]: 3}, RECENT_MS // 2)
    recent.follow({PLACES[0]: 3}, RECENT_MS - 60_000)
    assert "gateway.place_0 (3)" in text_of(recent)
    recent.follow({PLACES[0]: 3}, RECENT_MS + 60_000)
    assert "gateway.place_0 (2)" in text_of(recent)
    recent.follow({PLACES[0]: 3}, 2 * RECENT_MS)
    assert recent.conditions() == []


def test_the_places_with_the_most_are_named() -> None:
    recent = RecentExceptions()
    recent.follow({place: number + 1 for number, place in enumerate(PLACES)}, 0)
    named = ", ".join(f"gateway.place_{number} ({number + 1})" for number in (6, 5, 4, 3, 2))
    assert text_of(recent) == (
        f"28 unexpected exceptions were contained in the last hour, at {named}: its log has the tracebacks"
    )


def test_a_poisonous_request_that_is_repeated_costs_no_memory() -> None:
    recent = RecentExceptions()
    for number in range(20_000):
        recent.follow({PLACES[0]: number + 1, PLACES[1]: number + 1}, number * 1_000)
    assert len(recent._recent) <= 2 * 61
