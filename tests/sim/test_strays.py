"""Who goes astray in some tours, and comes to places that nothing else leads to."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from barnabas.channel.messages import GroupAnswer
from barnabas_logstore.core.coordinator.runtime import coordinator_runtime
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.runtime.shard import Effect
from tests.compiled import can_throw, interpreted_only
from tests.sim.exceptions.call_sites import Place
from tests.sim.exceptions.campaign import ROUNDS, touring
from tests.sim.exceptions.strays import is_of_list
from tests.sim.run import simulate

pytestmark = [] if can_throw() else interpreted_only("throws by replacing methods")
STRAYING, LEAVING = (each for each in ROUNDS if each.exceptions is not None and each.exceptions.has_strays)
SITES = ("StreamHandshake.refuse", "Group.error_of_absent", "_Validation.refusal")


def test_strays_come_where_nothing_else_does() -> None:
    places = tuple(Place.parse(f"logstore.{site}:entry") for site in SITES)
    outcome = simulate(20_000_010, replace(touring(STRAYING, places), seconds=6))
    assert not outcome.failure, str(outcome)
    assert {each.place for each in outcome.thrown} == set(places)


def test_completions_are_refused_and_written_later() -> None:
    place = Place.parse("logstore.TransactionShard.step_due:entry")
    thrown: list[Place] = []
    for seed in range(20_000_561, 20_000_567):
        if not thrown:
            outcome = simulate(seed, touring(LEAVING, (place,)))
            assert not outcome.failure, str(outcome)
            thrown = [each.place for each in outcome.thrown]
    assert thrown == [place]


def test_of_what_a_coordinator_defers_a_list_alone_counts() -> None:
    led = LedShard.__new__(LedShard)
    listing = coordinator_runtime._Listing([], 1, GroupAnswer(1), 1)
    assert is_of_list((led, Effect(listing.committed, listing.lost)))
    assert not is_of_list((led, Effect(partial(print, "a member's share"))))
    assert is_of_list((cast("LedShard[Any]", SimpleNamespace()), 1))
