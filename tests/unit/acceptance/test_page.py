"""The page of acceptance: how old each run is, and what deviates."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance import page, results
from tests.acceptance.expected import Row, path_of, read
from tests.acceptance.outcomes import Outcome
from tests.acceptance.results import Saved
from tests.acceptance.suites import SUITES

TITLES = {"kgo": "franz-go", "sarama": "sarama 1"}
TABLES = {
    "kgo": [
        Row("TestPing", Outcome.PASS, Outcome.PASS),
        Row("TestShare", Outcome.SKIP, Outcome.PASS, "not built"),
        Row("TestShareETL", Outcome.SKIP, Outcome.PASS, "not built"),
    ],
    "sarama": [],
}


def run(suite: str, *unexpected: str, day: str = "2026-11-27") -> Saved:
    return Saved(suite, "abc1234", day, "compiled cores", 70, 1, 0, 2, list(unexpected))


def test_a_run_has_its_commit_day_build_and_counts_beside_those_of_kafka() -> None:
    section = page.section([run("kgo")], TITLES, TABLES)
    assert "| `kgo`: franz-go | `abc1234` | 2026-11-27 | compiled cores | 70 | 1 | 0 | 2 | 3 | as expected |" in section


def test_a_suite_that_was_never_run_says_so() -> None:
    assert "| `sarama`: sarama 1 | never run |" in page.section([run("kgo")], TITLES, TABLES)


def test_deviations_of_one_reason_are_one_line() -> None:
    assert "| `TestShare`, `TestShareETL` | skip | pass | not built |" in page.section([], TITLES, TABLES)


def test_unexpected_results_are_on_the_page() -> None:
    section = page.section([run("kgo", "TestPing: fail instead of pass")], TITLES, TABLES)
    assert "| 1 unexpected |" in section
    assert "- TestPing: fail instead of pass" in section


def test_a_run_replaces_that_of_its_suite_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for each in (run("sarama"), run("kgo", "TestPing: fail instead of pass"), run("kgo", day="2026-11-28")):
        results.save(each, list(TITLES), path)
    assert results.load(path) == [run("kgo", day="2026-11-28"), run("sarama")]


def test_the_page_is_what_the_saved_runs_and_the_tables_say() -> None:
    titles = {name: suite.title for name, suite in SUITES.items()}
    section = page.section(results.load(), titles, {name: read(path_of(name)) for name in SUITES})
    assert page.PAGE.read_text().split(page.BEGIN)[1].split(page.END)[0].strip() == section
