"""The tiers of the tests: how many examples Hypothesis tries, and which seeds run, in `make test` and `make test-deep`.

`make test` leaves out what bears the mark `deep`, and uses the profile `quick`. `.ci/run` adds the integration tests
that are deep, but for those with the mark `minutes`. `make test-deep` runs everything, with the profile `deep`:
`pytest --hypothesis-profile=deep` chooses it for single tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

QUICK, DEEP = "quick", "deep"

# Hypothesis never judges by the clock: a loaded machine would fail a correct test.
_OF_BOTH: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile(QUICK, max_examples=40, **_OF_BOTH)
settings.register_profile(DEEP, max_examples=500, **_OF_BOTH)

MUTANT_EXAMPLES = settings(max_examples=200, phases=[Phase.generate], derandomize=True, database=None, **_OF_BOTH)
"""To find planted faults: the same examples in every tier, so that what is found is found always."""


class Cost(Enum):
    """What an example of a test costs; the value is its number of examples, as a share of the profile's."""

    LOW = 4.0
    HIGH = 0.5
    VERY_HIGH = 0.2
    EXTREME = 0.025


def examples(cost: Cost) -> settings:
    """Return settings with the number of examples that the loaded profile allows a test of this cost.

    To be called where a test module is imported, which is after pytest has loaded the profile.
    """
    return settings(max_examples=max(1, round(settings.default.max_examples * cost.value)))


def seeds(every: Iterable[int], quick: int) -> list[Any]:
    """Return the parameters of a test for `every` seed: those after the first `quick` ones bear the mark `deep`."""
    return [pytest.param(seed, marks=() if number < quick else pytest.mark.deep) for number, seed in enumerate(every)]
