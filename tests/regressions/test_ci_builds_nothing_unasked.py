"""`make up` in continuous integration would have compiled for minutes what no job had asked for, beside its tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.releases import ROOT
from tests.unit.compiled.a_checkout import SUCCEEDS, Checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path / "checkout")
    made.build_by(SUCCEEDS)
    yield made
    made.kill()


@pytest.mark.parametrize("variables", [{"CI": "true"}, {"BARNABAS_CORES": "interpreted"}])
def test_no_build_begins_where_none_is_wanted(checkout: Checkout, variables: dict[str, str]) -> None:
    assert checkout.beside(**variables) == ""
    assert checkout.processes() == []
    assert not (checkout.root / "build").exists()
    assert checkout.beside() != "", "else this test could not fail"


def test_nothing_but_up_begins_one() -> None:
    recipes = (ROOT / "Makefile").read_text().splitlines()
    begins = [line.strip() for line in recipes if line.strip().endswith("scripts.compiled.beside")]
    assert begins == ["@$(BIN)/python -m scripts.compiled.beside"]
    up = recipes.index(next(line for line in recipes if line.startswith("up:")))
    assert begins[0] in [line.strip() for line in recipes[up : recipes.index("", up)]]
