"""Tours of what follows an operation of a disk that lacks room, and of what a start finds half done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiled import can_throw, interpreted_only
from tests.sim.exceptions.account import Scope
from tests.sim.exceptions.call_sites import Place
from tests.sim.exceptions.campaign import ROUNDS, touring, tours_of
from tests.sim.exceptions.provoked import provoking
from tests.sim.run import Options, simulate

pytestmark = [] if can_throw() else interpreted_only("is thrown at by replacing methods")

SHORT = next(each for each in ROUNDS if each.exceptions is not None and each.exceptions.lacks_room)
UNDONE = (
    "logstore.DiskFullRecovery.done:entry",
    "logstore.DiskFullRecovery.undo:exit",
    "logstore.FullDisks.take_back_soon:entry",
    "logstore.LogFlushes.take_back:entry",
    "logstore.LogWrites.join:exit",
    "logstore.PartitionLog.on_flush_without_room:entry",
)


def toured(options: Options, seconds: int, *named: str) -> Options:
    return replace(touring(options, tuple(map(Place.parse, named))), seconds=seconds)


def test_what_is_raised_as_a_write_is_taken_back_costs_its_partition() -> None:
    """No client of the hours has a rollback lack room itself: disks lack it at single operations here."""
    outcome = simulate(3, toured(SHORT, 8, *UNDONE))
    assert not outcome.failure, str(outcome)
    assert sorted(str(each.place) for each in outcome.thrown) == list(UNDONE)
    assert {each.scope for each in outcome.thrown} == {Scope.PARTITION}


def test_a_tour_keeps_what_is_its_rounds_own() -> None:
    for _, options in tours_of([Place.parse(each) for each in UNDONE], SHORT, 5):
        assert options.exceptions is not None
        assert options.exceptions.lacks_room
        assert len(options.exceptions.named) == len(UNDONE)


@pytest.mark.deep
def test_a_start_that_fails_as_it_forgets_a_moved_log_is_repeated() -> None:
    """The one before it has died as the old directory of the log was about to be deleted."""
    site = "logstore.LogDirectory.forget_gone"
    named = *map(str, provoking()[site]), f"{site}:entry"
    outcome = simulate(10002005, toured(ROUNDS[0], 12, *named))
    assert not outcome.failure, str(outcome)
    assert [str(each.place) for each in outcome.thrown] == list(named)
    assert {each.scope for each in outcome.thrown} == {Scope.PROCESS}
