"""Examples and seeds by tier."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import settings

from tests.tiers import DEEP, QUICK, Cost, examples, seeds

TESTS = Path(__file__).parents[2]


def test_a_deep_run_tries_more() -> None:
    assert settings.get_profile(QUICK).max_examples < settings.get_profile(DEEP).max_examples


@pytest.mark.parametrize("profile", [QUICK, DEEP])
def test_hypothesis_never_judges_by_the_clock(profile: str) -> None:
    assert settings.get_profile(profile).deadline is None


def test_examples_are_a_share_of_the_profiles() -> None:
    assert examples(Cost.HIGH).max_examples == settings.default.max_examples // 2
    assert examples(Cost.EXTREME).max_examples >= 1


def test_seeds_after_the_first_are_deep() -> None:
    parameters = seeds(range(10, 14), quick=2)
    assert [each.values for each in parameters] == [(10,), (11,), (12,), (13,)]
    assert [len(each.marks) for each in parameters] == [0, 0, 1, 1]


def is_there(name: str, path: Path) -> bool:
    """Whether a folder or a module of the integration tests, or a test of the module at `path`, has that name."""
    places = (TESTS.parent / name, TESTS / f"integration/{name}.py")
    return any(place.exists() for place in places) or f"def {name}(" in path.read_text()


def test_what_takes_minutes_names_what_shows_the_same_in_small() -> None:
    found = 0
    for path in (TESTS / "integration").glob("test_*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.minutes":
                (why,) = map(ast.literal_eval, call.args)
                named = re.findall(r"\btest_\w+|tests/[\w/]+", why)
                assert named, f"{path.name}: {why}"
                assert [name for name in named if not is_there(name, path)] == []
                found += 1
    assert found > 0


def test_no_test_states_a_number_of_examples() -> None:
    word = "max_" + "examples="
    stated = [path.name for path in TESTS.rglob("*.py") if re.search(rf"{word}\d", path.read_text())]
    assert stated == ["tiers.py"]
