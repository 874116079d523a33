"""A transaction whose last marker was answered by another logstore stayed PREPARE_COMMIT in `__transaction_state` until
something else of the coordinator was due: its completion was put between two turns, and counted for no work. Seed 31 of
the simulation.
"""

from __future__ import annotations

import pytest

from tests.unit.logstore.transactions.support import World


@pytest.mark.parametrize("commit", [True, False])
def test_a_completion_that_is_put_between_turns_is_written_in_the_next(commit: bool) -> None:
    world = World()
    world.end(*world.begun(), commit=commit)
    ((sender, transaction),) = world.markers.sent
    assert not world.coordinator.has_work
    sender.markers_written(transaction)
    assert world.coordinator.has_work
    world.advance(0)
    assert not world.coordinator.has_work
