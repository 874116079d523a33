"""What a test of a suite shows."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias


class Outcome(StrEnum):
    """Of one test, as its own runner reports it."""

    PASS = "pass"
    FAIL = "fail"
    """Also of a test that started and has reported nothing since."""
    SKIP = "skip"
    """Also of a test that says it passed, and has executed nothing."""
    ABSENT = "absent"
    """The suite leaves it out, and does not say so: most do that with what a broker's versions rule out."""


Outcomes: TypeAlias = dict[str, Outcome]
"""By the test's name, in the order of the suite."""


def count(outcomes: Outcomes, outcome: Outcome) -> int:
    return sum(each is outcome for each in outcomes.values())


def executed(outcomes: Outcomes) -> int:
    """Return how many tests came to a verdict on the broker."""
    return count(outcomes, Outcome.PASS) + count(outcomes, Outcome.FAIL)
