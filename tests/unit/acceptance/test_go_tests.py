"""What is read from compiled tests of Go: a run that ended early is not green."""

from __future__ import annotations

from tests.acceptance.outcomes import Outcome, executed
from tests.acceptance.suites import kgo
from tests.acceptance.suites.go_tests import read_events

LINES = [
    "panic: what a client of Go writes to standard error",
    '{"Action":"start"}',
    '{"Action":"run","Test":"TestPing"}',
    '{"Action":"output","Test":"TestPing","Output":"--- FAIL: TestOther (0.00s)\\n"}',
    '{"Action":"pass","Test":"TestPing","Elapsed":0.1}',
    '{"Action":"run","Test":"TestTxnEtl"}',
    '{"Action":"run","Test":"TestTxnEtl/range"}',
    '{"Action":"skip","Test":"TestTxnEtl/range","Elapsed":0}',
    '{"Action":"fail","Test":"TestTxnEtl","Elapsed":3}',
    '{"Action":"run","Test":"TestFormat"}',
    '{"Action":"run","Test":"TestFormat/one"}',
    '{"Action":"pass","Test":"TestFormat/one","Elapsed":0}',
    '{"Action":"fail","Elapsed":3}',
]


def test_each_test_has_the_verdict_of_its_own_event() -> None:
    assert read_events(LINES) == {
        "TestPing": Outcome.PASS,
        "TestTxnEtl": Outcome.FAIL,
        "TestTxnEtl/range": Outcome.SKIP,
        "TestFormat": Outcome.FAIL,
        "TestFormat/one": Outcome.PASS,
    }


def test_a_test_without_a_verdict_has_failed() -> None:
    assert read_events(LINES)["TestFormat"] is Outcome.FAIL


def test_a_binary_that_ends_at_once_has_executed_nothing() -> None:
    dead = ["panic: unable to issue ApiVersions: connection refused", '{"Action":"start"}', '{"Action":"fail"}']
    assert executed(read_events(dead)) == 0


def test_subtests_that_versions_rule_out_are_kept_and_no_others() -> None:
    assert list(kgo.select(read_events(LINES))) == ["TestPing", "TestTxnEtl", "TestTxnEtl/range", "TestFormat"]
