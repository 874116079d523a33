"""The ledger of durations: what takes over a second in `make test` has a reason."""

from __future__ import annotations

from pathlib import Path

from tests.durations import CASE_SECONDS_MAX, read_ledger, read_reasons, reason_of

ROOT = Path(__file__).parents[3]


def test_every_case_over_a_second_has_a_reason() -> None:
    reasons = read_reasons()
    slow = [name for name, seconds in read_ledger().items() if "::" in name and seconds > CASE_SECONDS_MAX]
    assert slow, "the ledger names none at all"
    assert [case for case in slow if reason_of(case, reasons) is None] == []


def test_reasons_are_of_tests_that_there_are() -> None:
    missing = []
    for name in read_reasons():
        path, _, case = name.partition("::")
        if not (ROOT / path).is_file() or f"def {case}" not in (ROOT / path).read_text():
            missing.append(name)
    assert missing == []


def test_a_case_has_its_own_reason_or_that_of_its_module() -> None:
    reasons = {"tests/a.py": "all wait", "tests/a.py::test_b": "waits twice"}
    assert reason_of("tests/a.py::test_b[1]", reasons) == "waits twice"
    assert reason_of("tests/a.py::test_c", reasons) == "all wait"
    assert reason_of("tests/b.py::test_b", reasons) is None
