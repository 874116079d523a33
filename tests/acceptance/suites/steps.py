"""A suite whose rows come of steps, one after the other, on one subject."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

import click
from confluent_kafka import KafkaException

from tests.acceptance.outcomes import Outcome, Outcomes

_NAMED_MAX: Final = 5

Subject = TypeVar("Subject")
Problems: TypeAlias = list[list[str]]
"""What is wrong, for each row of a step; a row with none passes."""
Step: TypeAlias = tuple[tuple[str, ...], Callable[[Subject], Problems]]
"""The names of its rows, and what returns the problems of each."""


class StepError(Exception):
    """What a step asked for was not done; the message says what was seen."""


FAILURES: Final = (KafkaException, StepError, TimeoutError, OSError)
"""What a step may raise: then each of its rows has failed."""


def all_failed(steps: Sequence[Step[Subject]]) -> Outcomes:
    return {name: Outcome.FAIL for names, _ in steps for name in names}


def run_steps(steps: Sequence[Step[Subject]], subject: Subject, ends_at: float, outcomes: Outcomes) -> None:
    """Write what the rows of each step show into `outcomes`, and say what is wrong; none begins after `ends_at`."""
    for names, step in steps:
        for name, problems in zip(names, problems_of(step, len(names), subject, ends_at), strict=True):
            outcomes[name] = Outcome.FAIL if problems else Outcome.PASS
            for each in problems[:_NAMED_MAX]:
                click.echo(f"  {name}: {each}")


def problems_of(step: Callable[[Subject], Problems], rows: int, subject: Subject, ends_at: float) -> Problems:
    """Return the step's problems for each of its rows; what it raises is one of each."""
    if time.monotonic() > ends_at:
        return [["not begun within the time of the suite"]] * rows
    try:
        return step(subject)
    except FAILURES as error:
        return [[repr(error)]] * rows
