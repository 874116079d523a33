"""The client matrix: what is read from programs, and that nothing which fails is left out of the table."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.compat.matrix import table
from tests.compat.matrix.check import ATTEMPTS, QUICK, check, new_failures
from tests.compat.matrix.clients import CLIENTS, Client
from tests.compat.matrix.programs import Report, read_report, run_program
from tests.compat.matrix.results import Saved, load, save

LINES = ["version 1.2", "plan create-topic produce acls", "some noise", "ok create-topic", "failed produce: it broke"]


def saved(client: str, against: str, **results: str) -> Saved:
    named = {capability.replace("_", "-"): why for capability, why in results.items()}
    return Saved(client, against, "abc", "2026-11-21", Report("1.2", named))


def test_what_a_program_does_not_report_has_failed() -> None:
    report = read_report(LINES, "it ended early")
    assert report.version == "1.2"
    assert report.results == {"create-topic": "", "produce": "it broke", "acls": "it ended early"}


def test_a_program_without_a_plan_has_failed() -> None:
    assert "Traceback of something" in read_report(["Traceback of something", ""], "end").failed["start"]


def test_a_program_that_hangs_is_ended_and_what_it_said_stays(tmp_path: Path) -> None:
    program = "import time; print('plan a b'); print('ok a', flush=True); time.sleep(60)"
    report = run_program([sys.executable, "-u", "-c", program], tmp_path, tmp_path / "log", 2, {})
    assert list(report.failed) == ["b"]


def test_a_failure_is_reported_with_what_apache_kafka_says_to_the_same_program() -> None:
    rows = table.rows(
        [
            saved("kcat", "1", create_topic="", produce="it broke", produce_idempotent=""),
            saved("kcat", "3", create_topic="", produce="", produce_idempotent=""),
            saved("kcat", "kafka", create_topic="", produce="", produce_idempotent=""),
        ]
    )
    assert "| kcat | produce | 1 | it broke | works |" in rows
    assert "1 of 2 / ✓" in rows


def test_a_client_that_ran_against_three_alone_is_reported() -> None:
    assert "| kcat | produce | 3 | it broke | not run |" in table.rows([saved("kcat", "3", produce="it broke")])


def test_a_row_names_the_commits_of_its_runs() -> None:
    runs = [saved("kcat", "1", produce=""), saved("kcat", "3", produce="")]
    runs[1].commit = "def"
    assert table.rows(runs).splitlines()[2].endswith("| `abc` / `def` |")
    assert table.rows(runs[1:]).splitlines()[2].endswith("| – / `def` |")


def test_a_skipped_client_is_reported_with_the_reason() -> None:
    skipped = Saved("rdkafka for Rust", "1", "abc", "2026-11-21", Report(skipped="cargo not on PATH"))
    assert "skipped: cargo not on PATH" in table.rows([skipped])


def test_a_run_of_one_client_replaces_its_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    save([saved("kcat", "1", produce="it broke"), saved("aiokafka", "1", produce="")], ["kcat", "aiokafka"], path)
    save([saved("kcat", "1", produce="")], ["kcat", "aiokafka"], path)
    assert [(each.client, each.report.failed) for each in load(path)] == [("kcat", {}), ("aiokafka", {})]


def test_what_a_program_says_that_its_client_lacks_is_no_capability() -> None:
    report = read_report(["lacks transactions", *LINES], "it ended early")
    assert report.lacking == ["transactions"]
    assert "transactions" not in report.results


def test_a_client_that_was_not_asked_for_transactions_differs_from_one_without() -> None:
    asked, unasked, without = (saved(name, "1", produce="") for name in ("asked", "unasked", "without"))
    asked.report.results |= {"transactions": "", "transactional-offsets": "it broke"}
    without.report.lacking = ["transactions"]
    column = [name.strip() for name in table.rows([asked]).splitlines()[0].split("|")].index("transactions")
    rows = table.rows([asked, unasked, without]).splitlines()[2:5]
    assert [row.split("|")[column].strip() for row in rows] == ["1 of 2 / not run", "not asked", "–"]


def test_a_run_from_before_there_was_a_check_is_not_said_to_have_failed_it() -> None:
    news = saved("kcat", "3", produce="", produce_acks_0="", transactions="")
    cells = table.rows([saved("kcat", "1", produce=""), news]).splitlines()[2].split(" | ")
    assert "1 of 1 / ✓" in cells
    assert "not asked / ✓" in cells


def test_what_works_with_barnabas_alone_is_reported_with_what_apache_kafka_says() -> None:
    heading = "What works with Barnabas, and failed with Apache Kafka:"
    ours = [saved("old", "1", produce=""), saved("old", "3", produce="")]
    rows = table.rows([*ours, saved("old", "kafka", produce="too old")])
    assert "| old | produce | too old |" in rows.split(heading)[1]
    assert heading not in table.rows([*ours, saved("old", "kafka", produce="")])
    ours[1].report.results["produce"] = "too old"
    assert heading not in table.rows([*ours, saved("old", "kafka", produce="too old")])


def client(name: str) -> Client:
    return Client(name, "python", lambda directory: [])


def test_a_check_forgives_what_is_saved_as_failed_alone() -> None:
    before = [saved("kcat", "1", produce="it broke"), saved("kcat", "3", acls="it broke")]
    report = Report("1.2", {"acls": "again", "produce": "it broke", "produce-gzip": ""})
    assert new_failures("kcat", report, before) == {"produce": "it broke"}
    assert new_failures("another", report, before) == {"acls": "again", "produce": "it broke"}


def test_a_check_runs_again_what_is_worse_under_other_names() -> None:
    asked: list[tuple[str, str]] = []

    def run(each: Client, suffix: str) -> Report:
        asked.append((each.name, suffix))
        broken = each.name == "broken" or (each.name == "late" and not suffix)
        return Report("1.2", {"produce": "it broke" if broken else ""})

    assert check([client(name) for name in ("works", "late", "broken")], run, []) == ["broken"]
    assert sorted(asked) == [("broken", ""), ("broken", "-1"), ("late", ""), ("late", "-1"), ("works", "")]
    assert ATTEMPTS == 2


def test_a_check_passes_a_client_whose_toolchain_is_missing() -> None:
    assert check([client("skipped")], lambda *_: Report(skipped="cargo not on PATH"), []) == []


def test_a_program_without_a_plan_fails_a_check() -> None:
    assert check([client("kcat")], lambda *_: read_report(["Traceback"], "end"), []) == ["kcat"]


def test_the_quick_half_is_of_clients_of_the_matrix() -> None:
    assert set(QUICK) <= {client.name for client in CLIENTS}


def test_names_of_clients_are_distinct() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
