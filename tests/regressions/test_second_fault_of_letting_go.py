"""A shard that is lost is ended step by step, whatever the other steps meet. If two steps failed, only the first
exception was reported: the second fault left no trace in the log.
"""

from __future__ import annotations

import pytest

from barnabas.containment import Place, Scope, describe_exception
from barnabas_logstore.core.coordinator.runtime.shard import do_all

PLACE = Place("logstore.test", Scope.PARTITION, "a shard")


def test_each_step_that_failed_is_reported() -> None:
    taken = []

    def fails(text: str) -> None:
        taken.append(text)
        raise KeyError(text)

    steps = [lambda: fails("first"), lambda: taken.append("whole"), lambda: fails("second")]
    with pytest.raises(ExceptionGroup) as caught:
        do_all(steps)
    assert taken == ["first", "whole", "second"]
    report = describe_exception(PLACE, caught.value, {})
    assert "KeyError: 'first'" in report.summary
    assert "KeyError: 'first'" in report.traceback
    assert "KeyError: 'second'" in report.traceback


def test_one_fault_is_raised_as_it_is() -> None:
    def fails() -> None:
        raise KeyError("alone")

    with pytest.raises(KeyError, match="alone"):
        do_all([fails, lambda: None])
