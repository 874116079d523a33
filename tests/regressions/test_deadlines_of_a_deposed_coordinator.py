"""A logstore that had lost all partitions of `__transaction_state` took a turn every millisecond, for ever: when to
look for timeouts and for ids to forget stayed as it was, in the past, and was never done. A third of the turns of all
logstores in the simulation's seeds with transactions.
"""

from __future__ import annotations

from tests.unit.logstore.transactions.support import World


def test_a_coordinator_without_partitions_waits_for_nothing() -> None:
    world = World()
    world.begun()
    assert world.coordinator.next_deadline_ms() is not None
    world.lose()
    assert world.coordinator.next_deadline_ms() is None


def test_a_coordinator_that_leads_again_looks_for_timeouts_again() -> None:
    world = World()
    world.begun()
    world.fail_over()
    assert world.coordinator.next_deadline_ms() is not None
