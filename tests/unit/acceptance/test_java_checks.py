"""What the checks by Kafka's tools of Java ask of a tool: a tool that reached no broker never passes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.acceptance.suites.java_checks import Check, consumes, is_silent, runs_on_and_says, says
from tests.acceptance.suites.javatools import CHECKS
from tests.acceptance.suites.javatools39 import CHECKS as CHECKS_OF_3_9

UNREACHABLE = """[2026-11-28 05:00:00,000] WARN Connection to node -1 (/127.0.0.1:9092) could not be established.
Error while executing topic command : Timed out waiting for a node assignment. Call: listTopics
"""
JUDGED = [each for each in (*CHECKS, *CHECKS_OF_3_9) if each.verdict is not None]
CONSUMED = """{"name":"startup_complete"}
{"name":"records_consumed","count":3}
WARN noise
{"name":"records_consumed","count":2}"""


def test_a_tool_must_succeed_and_say_it() -> None:
    verdict = says("^20000 records sent")
    assert verdict(0, "noise\n20000 records sent, 9999 records/sec")
    assert not verdict(1, "20000 records sent, 9999 records/sec")
    assert not verdict(None, "20000 records sent, 9999 records/sec")
    assert not verdict(0, "10000 records sent")


def test_a_tool_without_an_end_must_still_run() -> None:
    verdict = runs_on_and_says("max lag is 0")
    assert verdict(None, "max lag is 0 for partition verified-0")
    assert not verdict(0, "max lag is 0 for partition verified-0")
    assert not verdict(None, "")


def test_records_are_counted_exactly() -> None:
    assert consumes(5)(0, CONSUMED)
    assert not consumes(5)(1, CONSUMED)
    assert not consumes(6)(0, CONSUMED)
    assert not consumes(4)(0, CONSUMED)


def test_a_tool_that_does_its_work_silently_writes_nothing() -> None:
    assert is_silent(0, "\n")
    assert not is_silent(0, UNREACHABLE)
    assert not is_silent(1, "")


@pytest.mark.parametrize("check", JUDGED, ids=lambda each: each.name)
@pytest.mark.parametrize(("status", "output"), [(1, UNREACHABLE), (None, UNREACHABLE), (0, UNREACHABLE), (None, "")])
def test_no_check_passes_without_a_broker(check: Check, status: int | None, output: str) -> None:
    assert check.verdict is not None
    assert not check.verdict(status, output)


@pytest.mark.parametrize(("checks", "judged"), [(CHECKS, 37), (CHECKS_OF_3_9, 34)])
def test_every_check_has_its_own_name(checks: tuple[Check, ...], judged: int) -> None:
    names = Counter(check.name for check in checks if check.verdict is not None)
    assert len(names) == judged
    assert set(names.values()) == {1}
    assert "" not in names
