"""The tables of expected results: each deviation has its reason, and each difference from the table is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance import expected
from tests.acceptance.expected import Row, TableError
from tests.acceptance.outcomes import Outcome, Outcomes
from tests.acceptance.suites import SUITES

PASS, FAIL, SKIP, ABSENT = Outcome.PASS, Outcome.FAIL, Outcome.SKIP, Outcome.ABSENT
ROWS = [Row("produce", PASS, PASS), Row("share", SKIP, PASS, "not built"), Row("quorum", FAIL, PASS, "no quorum")]
SHOWN: Outcomes = {"produce": PASS, "share": SKIP, "quorum": FAIL}


@pytest.mark.parametrize("suite", SUITES)
def test_each_deviation_of_a_table_has_its_reason(suite: str) -> None:
    rows = expected.read(expected.path_of(suite))
    assert sum(row.barnabas is PASS for row in rows) > len(rows) / 2
    assert expected.without_reason(rows) == []


def test_every_table_is_of_a_suite() -> None:
    assert {path.stem for path in expected.FOLDER.glob("*.tsv")} == set(SUITES)


def test_what_the_table_expects_is_not_reported() -> None:
    assert expected.unexpected(ROWS, SHOWN) == []


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"produce": FAIL}, "produce: fail instead of pass"),
        ({"produce": SKIP}, "produce: skip instead of pass"),
        ({"share": PASS}, "share: pass instead of skip"),
        ({"quorum": PASS}, "quorum: pass instead of fail"),
        ({"fetch": PASS}, "fetch: pass, and has no row in the table"),
    ],
)
def test_any_other_result_is_reported(changed: Outcomes, line: str) -> None:
    assert expected.unexpected(ROWS, SHOWN | changed) == [line]


def test_a_test_that_was_not_run_is_reported() -> None:
    assert expected.unexpected(ROWS, {"produce": PASS, "share": SKIP}) == ["quorum: absent instead of fail"]
    assert len(expected.unexpected(ROWS, {})) == len(ROWS)


def test_a_run_against_kafka_is_compared_with_what_kafka_shows() -> None:
    assert expected.unexpected(ROWS, dict.fromkeys(SHOWN, PASS), of_kafka=True) == []


def test_a_deviation_without_a_reason_is_found_and_a_reason_without_a_deviation() -> None:
    rows = [*ROWS, Row("lost", FAIL, PASS), Row("mended", PASS, PASS, "no quorum")]
    assert expected.without_reason(rows) == ["lost", "mended"]


def test_what_was_shown_can_be_written_and_read_again(tmp_path: Path) -> None:
    learned = expected.learned(ROWS, SHOWN | {"share": PASS, "fetch": PASS})
    expected.write(learned, tmp_path / "suite.tsv")
    assert expected.read(tmp_path / "suite.tsv") == [
        Row("produce", PASS, PASS),
        Row("share", PASS, PASS),
        Row("quorum", FAIL, PASS, "no quorum"),
        Row("fetch", PASS, ABSENT),
    ]


def test_a_test_that_neither_shows_any_more_leaves_the_table() -> None:
    assert expected.learned([Row("old", PASS, ABSENT, "ours")], {}) == []


@pytest.mark.parametrize(
    "text",
    [
        "name\tbarnabas\tkafka\treason\n",
        "test\tbarnabas\tkafka\treason\nproduce\tpass\tpass\n",
        "test\tbarnabas\tkafka\treason\nproduce\tgreen\tpass\t\n",
        "test\tbarnabas\tkafka\treason\nproduce\tpass\tpass\t\nproduce\tpass\tpass\t\n",
    ],
)
def test_a_table_that_says_too_little_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "suite.tsv"
    path.write_text(text)
    with pytest.raises(TableError):
        expected.read(path)
