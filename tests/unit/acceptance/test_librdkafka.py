"""What is read from librdkafka's runner: a test that executed nothing has not passed."""

from __future__ import annotations

import pytest

from tests.acceptance.outcomes import Outcome
from tests.acceptance.suites.librdkafka import parts, read_part, read_summary, with_broker

TABLE = """
struct test tests[] = {
    /* Special MAIN test to hold over-all timings, etc. */
    {.name = "<MAIN>", .flags = TEST_F_LOCAL},
    _TEST(0000_unittests,
          TEST_F_LOCAL,
          _THRES(.ucpu = 100.0)),
    _TEST(0001_multiobj, 0),
    _TEST(0031_get_offsets, 0),
    _TEST(0031_get_offsets_mock, TEST_F_LOCAL),
    _TEST(0079_fork,
          TEST_F_LOCAL | TEST_F_KNOWN_ISSUE,
          .extra = "using a fork():ed rd_kafka_t is not supported"),
    _TEST(0069_consumer_add_parts,
          TEST_F_KNOWN_ISSUE_WIN32,
          TEST_BRKVER(1, 0, 0, 0)),
    _TEST(8000_idle, TEST_F_MANUAL),
    {NULL}};
"""
SUMMARY = """TEST 20261128 (1 tests) SUMMARY
#==================================================================#
|\x1b[32m <MAIN>                                   |     PASSED |   1.234s |
|\x1b[32m 0081_admin                               |     PASSED |  12.345s |
|\x1b[31m 0084_destroy_flags                       |     FAILED |   3.000s | test_consume(): it broke
|\x1b[33m 0084_destroy_flags_local                 |    SKIPPED |   0.000s | local test not run
|\x1b[32m 0084_empty                               |     PASSED |   0.000s |
"""


def test_local_and_manual_tests_are_left_out() -> None:
    assert with_broker(TABLE) == {
        "0001": ["0001_multiobj"],
        "0031": ["0031_get_offsets"],
        "0069": ["0069_consumer_add_parts"],
    }


def test_each_test_of_the_number_has_its_verdict() -> None:
    assert read_summary(["0081_admin"], SUMMARY) == {"0081_admin": Outcome.PASS}
    assert read_summary(["0084_destroy_flags", "0084_empty"], SUMMARY) == {
        "0084_destroy_flags": Outcome.FAIL,
        "0084_empty": Outcome.SKIP,
    }
    assert read_summary(["0084_destroy_flags_local"], SUMMARY) == {"0084_destroy_flags_local": Outcome.SKIP}


def test_a_runner_that_ended_before_its_summary_has_failed() -> None:
    dead = "%3|FAIL|rdkafka#producer-1| Connection refused\nKilled"
    assert read_summary(["0001_multiobj"], dead) == {"0001_multiobj": Outcome.FAIL}


PARTS = """
static void do_test_CreateTopics(const char *what,
                                 rd_kafka_t *rk) {
        SUB_TEST_QUICK("%s", what);
}
static void
do_test_CreateAcls(rd_kafka_t *rk, rd_kafka_queue_t *useq, int version) {
        SUB_TEST_QUICK();
}
static void do_test_apis(rd_kafka_type_t cltype) {
        do_test_CreateTopics("temp queue", rk);
}
"""
PASSED = "|\x1b[32m 0081_admin                               |     PASSED |  12.345s |\n"
FAILED = "|\x1b[31m 0081_admin                               |     FAILED |  12.345s | it broke\n"
END = "\x1b[35m[0081_admin / 8.2s] \x1b[32m[ do_test_CreateAcls:1539: {} ]\x1b[0m\n"


def test_parts_are_the_functions_that_say_where_one_begins() -> None:
    assert parts(PARTS) == ["CreateTopics", "CreateAcls"]


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        (END.format("PASS (0.01s)") + PASSED, Outcome.PASS),
        (END.format("PASS (0.01s)") + END.format("SKIP: not here") + PASSED, Outcome.PASS),
        (END.format("SKIP: not here") + PASSED, Outcome.SKIP),
        (END.format("PASS (0.01s)") + FAILED, Outcome.FAIL),
        (END.format("PASS (0.01s)"), Outcome.FAIL),
        (PASSED, Outcome.SKIP),
        (END.format("PASS (0.01s)").replace("CreateAcls", "CreateAclsToo") + PASSED, Outcome.SKIP),
    ],
)
def test_a_part_has_passed_if_it_was_executed(output: str, outcome: Outcome) -> None:
    assert read_part("0081_admin", "CreateAcls", output) == {"0081_admin/CreateAcls": outcome}
