"""What is read from the driver of Kafka Streams' smoke test."""

from __future__ import annotations

import pytest

from tests.acceptance.outcomes import Outcome
from tests.acceptance.suites.streams import read_verdict


def test_the_driver_says_success_on_its_own_line() -> None:
    assert read_verdict("ALL-RECORDS-DELIVERED\nSUCCESS\n") is Outcome.PASS


@pytest.mark.parametrize("said", ["", "FAILURE\n", "NO SUCCESS\n", "PROCESSED-LESS-THAN-GENERATED\nFAILURE\n"])
def test_anything_else_is_a_failure(said: str) -> None:
    assert read_verdict(said) is Outcome.FAIL
