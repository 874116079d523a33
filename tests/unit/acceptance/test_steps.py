"""Steps of a suite: a step that could not be done never passes, and neither does one that was never reached."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.acceptance.outcomes import Outcome
from tests.acceptance.suites.steps import Problems, Step, StepError, all_failed, problems_of, run_steps

FOREVER = float("inf")


def right_and_wrong(_: int) -> Problems:
    return [[], ["a record is missing"]]


def refused(_: int) -> Problems:
    raise StepError("409")


STEPS: tuple[Step[int], ...] = ((("right", "wrong"), right_and_wrong), (("never", "neither"), refused))


def test_a_row_without_problems_passes_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = all_failed(STEPS)
    run_steps(STEPS, 0, FOREVER, outcomes)
    assert outcomes == {
        "right": Outcome.PASS,
        "wrong": Outcome.FAIL,
        "never": Outcome.FAIL,
        "neither": Outcome.FAIL,
    }
    said = capsys.readouterr().out
    assert "wrong: a record is missing" in said
    assert "neither: StepError('409')" in said


def test_before_the_first_step_all_rows_have_failed() -> None:
    assert set(all_failed(STEPS).values()) == {Outcome.FAIL}


def test_a_step_must_say_something_of_each_of_its_rows() -> None:
    steps: tuple[Step[int], ...] = ((("one", "two", "three"), right_and_wrong),)
    with pytest.raises(ValueError, match="zip"):
        run_steps(steps, 0, FOREVER, {})


@pytest.mark.parametrize(
    "error",
    [StepError("409"), TimeoutError("late"), ConnectionRefusedError(), KafkaException(KafkaError(KafkaError._FAIL))],
)
def test_what_a_step_raises_fails_each_of_its_rows(error: Exception) -> None:
    def step(_: int) -> Problems:
        raise error

    assert problems_of(step, 2, 0, FOREVER) == [[repr(error)]] * 2


def test_a_step_after_the_end_of_the_time_fails() -> None:
    assert problems_of(right_and_wrong, 2, 0, 0.0) == [["not begun within the time of the suite"]] * 2
