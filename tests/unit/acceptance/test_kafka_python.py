"""What is read from pytest's results of kafka-python's tests."""

from __future__ import annotations

from tests.acceptance.outcomes import Outcome
from tests.acceptance.suites.kafka_python import read_results

RESULTS = """<testsuites><testsuite name="pytest" tests="5">
<testcase classname="test.integration.test_admin_integration" name="test_create_topics" time="0.1"/>
<testcase classname="test.integration.test_admin_integration" name="test_quorum"><failure message="broke"/></testcase>
<testcase classname="test.integration.test_sasl_integration" name="test_client"><skipped message="no SASL"/></testcase>
<testcase classname="test.integration.test_consumer_group" name="test_group"/>
<testcase classname="test.integration.test_consumer_group" name="test_group"><error message="at teardown"/></testcase>
</testsuite></testsuites>"""


def test_each_test_has_its_verdict() -> None:
    assert read_results(RESULTS) == {
        "test_admin_integration::test_create_topics": Outcome.PASS,
        "test_admin_integration::test_quorum": Outcome.FAIL,
        "test_consumer_group::test_group": Outcome.FAIL,
        "test_sasl_integration::test_client": Outcome.SKIP,
    }


def test_a_suite_that_collected_nothing_has_no_results() -> None:
    assert read_results('<testsuites><testsuite name="pytest" tests="0"/></testsuites>') == {}
