"""I17: what a coordinator has stored is what its log says, at the end of every run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiled import interpreted_only
from tests.sim.mutants import stored
from tests.sim.mutants.planting import TRANSACTIONAL, Mutant
from tests.sim.mutants.stored import STORED
from tests.sim.run import Options, simulate
from tests.sim.shapes import Profile

OPTIONS = Options(4, faults=[], at_most=TRANSACTIONAL, profile=Profile.SPARSE, is_transactional=True)


def test_shards_of_both_kinds_are_compared() -> None:
    outcome = simulate(3, OPTIONS)
    assert not outcome.failure, str(outcome)
    assert outcome.replayed_shards >= 2


@interpreted_only("replaces methods")
@pytest.mark.parametrize("mutant", STORED.all, ids=lambda mutant: mutant.name)
def test_a_second_mutator_is_seen(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else of a run sees these: members and producers do not miss what the next coordinator would."""
    monkeypatch.setattr(stored, "replace_in", monkeypatch.setattr)
    mutant.plant()
    assert isinstance(mutant.looked_for, Options)
    outcome = simulate(3, replace(mutant.looked_for, seconds=4, faults=[]))
    assert outcome.failure is not None
    assert "I17: " in outcome.failure.message
