"""How long writes waited because of a fault, from when they were acknowledged."""

from __future__ import annotations

from tests.faults.cells import CELLS
from tests.faults.checker.silences import Silences
from tests.faults.checker.verdict import Verdict
from tests.faults.grid import Outcome
from tests.faults.stage import Injection

MS = 1_000_000


def outcome(acknowledged_ms: dict[int, list[int]], began_ms: int, ended_ms: int, settled_ms: int) -> Outcome:
    times = {partition: [each * MS for each in ms] for partition, ms in acknowledged_ms.items()}
    return Outcome(
        CELLS["kill-leader"],
        Verdict(silences=Silences(acknowledged_ns=times)),
        injections=[Injection("a fault", began_ms * MS, ended_ms * MS, settled_ms * MS)],
    )


def test_the_partition_that_waits_longest_counts() -> None:
    found = outcome({0: [10, 20, 30, 40, 200], 1: [10, 20, 130, 140, 200]}, 25, 100, 150)
    assert found.failover_ms == 160  # partition 0, from 40 to 200
    assert found.return_ms == 100  # from the end of the fault on


def test_a_wait_counts_from_the_fault_on() -> None:
    assert outcome({0: [10, 90, 95]}, 50, 94, 95).failover_ms == 40


def test_a_wait_that_goes_on_after_the_fault_counts_to_its_end() -> None:
    assert outcome({0: [10, 500]}, 50, 100, 200).failover_ms == 450


def test_a_wait_that_began_after_the_fault_is_not_its_own() -> None:
    assert outcome({0: [10, 60, 99, 101, 900]}, 50, 100, 102).failover_ms == 39
    assert outcome({0: [10, 60, 99, 101, 900]}, 50, 100, 102).return_ms == 799


def test_a_goal_is_missed_by_more_than_it_allows() -> None:
    assert outcome({0: [0, 2000, 2001]}, 0, 2001, 2001).meets_goal
    assert not outcome({0: [0, 2001, 2002]}, 0, 2002, 2002).meets_goal
