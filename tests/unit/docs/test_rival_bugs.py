"""docs/verify/rival-bugs.md has each published fault, names code and mutants that exist, and each mutant in its row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sim.faults import Fault
from tests.sim.mutants import MUTANTS
from tests.unit.docs.test_architecture_names import missing_members, missing_paths
from tests.unit.docs.test_correctness import missing_mutants

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/verify/rival-bugs.md").read_text()
STATES = ("caught", "elsewhere", "waits")

_ROW = re.compile(r"^\| (\d+) \|(.*)\|$", re.MULTILINE)
_MUTANT = re.compile(r"`(?:sim|test|crash): ([a-z0-9_ ]+)`")


def rows() -> dict[int, list[str]]:
    """The cells of each row behind its number."""
    return {int(number): [cell.strip() for cell in cells.split("|")] for number, cells in _ROW.findall(PAGE)}


def test_every_fault_has_a_row() -> None:
    assert list(rows()) == list(range(1, 25))
    assert {len(cells) for cells in rows().values()} == {5}


@pytest.mark.parametrize("number", range(1, 25))
def test_what_does_not_wait_is_planted(number: int) -> None:
    *_, planted, state = rows()[number]
    assert state in STATES
    assert bool(_MUTANT.findall(planted)) == (state != "waits")


def test_what_waits_is_of_groups_that_are_not_served() -> None:
    waiting = {number: cells for number, cells in rows().items() if cells[-1] == "waits"}
    assert all(re.search(r"\b(share|streams) groups are not served", cells[2]) for cells in waiting.values())


def test_paths_functions_and_tests_exist() -> None:
    assert missing_paths(PAGE) == []
    assert missing_members(PAGE) == []


def test_mutants_exist() -> None:
    assert missing_mutants(PAGE) == []


def test_faults_exist() -> None:
    assert set(re.findall(r"`Fault\.([A-Z_]+)`", PAGE)) <= {fault.name for fault in Fault}


def test_every_mutant_of_a_rivals_fault_is_in_its_row() -> None:
    planted = {name: mutant.rule.removeprefix("rival ") for name, mutant in MUTANTS.items() if "rival" in mutant.rule}
    assert planted
    assert [name for name, number in planted.items() if name not in _MUTANT.findall(rows()[int(number)][3])] == []


def test_what_is_not_there_is_seen() -> None:
    assert missing_mutants("`sim: a follower keeps no producers` `sim: an expiry removes what is pending`") == [
        "sim: an expiry removes what is pending"
    ]
