"""The clients that some tours have besides, and what goes wrong for them: places that nothing else leads to."""

from __future__ import annotations

from dataclasses import replace

from tests.compiled import can_throw, interpreted_only
from tests.sim.exceptions.call_sites import Place
from tests.sim.exceptions.campaign import ROUNDS, hour_options, touring
from tests.sim.run import Outcome, simulate

pytestmark = [] if can_throw() else interpreted_only("throws by replacing methods")
QUIET, DISTURBED, *_ = (each for each in ROUNDS if each.exceptions is not None and each.exceptions.is_further)


def thrown_at(named: tuple[str, ...], *outcomes: Outcome) -> None:
    assert not any(outcome.failure for outcome in outcomes), [str(outcome) for outcome in outcomes]
    thrown = {str(each.place) for outcome in outcomes for each in outcome.thrown}
    assert thrown == {f"gateway.{each}:entry" for each in named}


def places(named: tuple[str, ...]) -> tuple[Place, ...]:
    return tuple(Place.parse(f"gateway.{each}:entry") for each in named)


def test_further_clients_lead_to_what_no_other_does() -> None:
    """To records of old formats, and to answers that wait for the next turn."""
    named = (
        "Connections.run_next_turn",
        "DownConversion.run",
        "PendingProduce.refuse",
    )
    thrown_at(named, simulate(1, replace(touring(QUIET, places(named)), seconds=6)))


def test_where_calls_get_lost_the_time_of_requests_is_over() -> None:
    named = ("PendingAdminRequest.expire", "PendingControllerRequest.expire")
    options = replace(touring(DISTURBED, places(named)), seconds=6)
    # Which calls get lost is chance: not every seed leads to both.
    thrown_at(named, *(simulate(seed, options) for seed in (1, 2, 3)))


def test_the_hours_have_no_further_clients() -> None:
    """Their seeds stay what they are."""
    exceptions = hour_options(1).exceptions
    assert exceptions is not None
    assert not exceptions.is_further
