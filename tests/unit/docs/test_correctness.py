"""docs/correctness.md names real code, tests, mutants, faults and commands, and passes nothing over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.crash.mutants.catalogue import MUTANTS as CRASH_MUTANTS
from tests.faults.cells import CELLS
from tests.property import test_replication as trio
from tests.sim.faults import Fault
from tests.sim.mutants import MUTANTS as SIM_MUTANTS
from tests.unit.docs.test_architecture_names import missing_members, missing_paths

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/correctness.md").read_text()
# By who has to see them.
TESTED = {name: mutant.looked_for for name, mutant in SIM_MUTANTS.items() if isinstance(mutant.looked_for, str)}
SIMULATED = SIM_MUTANTS.keys() - TESTED.keys()

_MUTANT = re.compile(r"`(sim|test|crash|trio): ([a-z0-9_ ]+)`")
_CELL = re.compile(r"`cell: ([a-z0-9-]+)`")
_FAULT = re.compile(r"`Fault\.([A-Z_]+)`")
_COMMAND = re.compile(r"`make ([a-z-]+)")
_HEADING = re.compile(r"^### (\d+)\. .*$", re.MULTILINE)
_ROW = re.compile(r"^\| \*\*(\d+)\*\* (.*)$", re.MULTILINE)


def missing_mutants(text: str) -> list[str]:
    known = {"sim": set(SIMULATED), "test": set(TESTED), "crash": set(CRASH_MUTANTS), "trio": set(vars(trio))}
    return [f"{who}: {name}" for who, name in _MUTANT.findall(text) if name not in known[who]]


def rules() -> dict[int, str]:
    """What the page says of each rule: its section, or its row of a table."""
    found = {int(number): row for number, row in _ROW.findall(PAGE)}
    headings = list(_HEADING.finditer(PAGE))
    for heading in headings:
        end = re.compile(r"^##", re.MULTILINE).search(PAGE, heading.end())
        assert end is not None
        found[int(heading.group(1))] = PAGE[heading.end() : end.start()]
    return found


def test_paths_functions_and_tests_exist() -> None:
    assert missing_paths(PAGE) == []
    assert missing_members(PAGE) == []


def test_mutants_exist() -> None:
    assert missing_mutants(PAGE) == []


def test_no_rule_is_passed_over() -> None:
    assert sorted(rules()) == list(range(1, 33))


@pytest.mark.parametrize("number", range(1, 33))
def test_a_mutant_is_described_where_it_breaks_something(number: int) -> None:
    """A mutant says which rule it breaks, and the page has it there."""
    reported = {name for who, name in _MUTANT.findall(rules()[number]) if who in ("sim", "test")}
    assert {name for name, mutant in SIM_MUTANTS.items() if mutant.rule == str(number)} <= reported


def test_every_mutant_is_described() -> None:
    assert set(SIM_MUTANTS) <= {name for who, name in _MUTANT.findall(PAGE) if who in ("sim", "test")}


def test_tests_that_mutants_name_exist() -> None:
    assert missing_paths(" ".join(node_id.replace("::", ":") for node_id in TESTED.values())) == []


def test_every_fault_of_the_simulation_is_described() -> None:
    assert set(_FAULT.findall(PAGE)) == {fault.name for fault in Fault}


def test_cells_exist() -> None:
    assert [name for name in _CELL.findall(PAGE) if name not in CELLS] == []


def test_every_invariant_has_a_line() -> None:
    assert re.findall(r"^\| I(\d+) \|", PAGE, re.MULTILINE) == [str(number) for number in range(1, 17)]


def test_commands_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [name for name in _COMMAND.findall(PAGE) if name not in targets] == []


def test_what_is_not_there_is_seen() -> None:
    text = "`sim: not planted at all` `crash: nor this` `trio: nor_that` `sim: window of four batches`"
    assert missing_mutants(text) == ["sim: not planted at all", "crash: nor this", "trio: nor_that"]


def test_what_somebody_else_has_to_see_is_seen() -> None:
    text = "`test: window of four batches` `sim: an old producer epoch may write`"
    assert missing_mutants(text) == ["test: window of four batches", "sim: an old producer epoch may write"]
