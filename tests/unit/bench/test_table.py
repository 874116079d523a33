"""The table of make bench: what becomes of samples, of rows that fail, and of the page."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from bench.__main__ import stages_of
from bench.kfake import side as kfake
from bench.loads import LOADS, Load
from bench.sides import Side
from bench.table import report
from bench.table import stage as stage_module
from bench.table.report import StageRun, TableRun, head, stage_text, write_page
from bench.table.rows import KAFKA, KFAKE, OURS, Row, Sample, take_in_turn
from bench.table.scale import QUICK, WHOLE
from bench.table.stage import Stage, failures

MACHINE = {
    "cpu": "2 × CPU",
    "memory": "4 GiB",
    "kernel": "6",
    "python": "3.11",
    "python build": "PGO and LTO",
    "load average before": "0.10",
}


def row_of(ours: list[float], theirs: list[float]) -> Row:
    row = Row("single", "one record a request", "≥ 3", "requests/s", "µs a request")
    row.samples = {
        OURS: [Sample(value, 30.0, 12.0, 90.0, 200.0, 4.0) for value in ours],
        KAFKA: [Sample(value, 60.0, 15.0) for value in theirs],
    }
    row.memory_bytes = {OURS: 300_000_000, KAFKA: 1_000_000_000}
    return row


def run_of(*rows: Row, is_quick: bool = False, lane: str = "on", stage: str = "one broker") -> TableRun:
    flags = {OURS: {"BARNABAS_LANE": lane, "node.id": "1"}, KAFKA: {"num.io.threads": "8"}}
    run = TableRun("python -m bench", "abc", "now", 180.0, MACHINE, "client", lane, is_quick, 3)
    run.stages = [StageRun(stage, flags, list(rows))]
    return run


def table_lines(*rows: Row) -> list[str]:
    return [line for line in stage_text(run_of(*rows).stages[0]).splitlines() if line.startswith("| ")]


def test_sides_are_measured_in_turn_and_ratios_taken_turn_by_turn() -> None:
    order: list[str] = []
    values = {OURS: iter([2000.0, 4000.0, 3000.0]), KAFKA: iter([2000.0, 1000.0, 1500.0])}

    def taker(side: str) -> Sample:
        order.append(side)
        return Sample(next(values[side]))

    row = Row("single", "one record a request", "≥ 3", "requests/s")
    take_in_turn(row, {side: lambda side=side: taker(side) for side in values}, 3, lambda line: None)  # type: ignore[misc]
    assert order == [OURS, KAFKA] * 3
    assert row.ratios(OURS) == [1.0, 4.0, 2.0]


def test_a_row_of_the_table_has_medians_with_their_spread_cpu_memory_and_ratios() -> None:
    assert table_lines(row_of([2000, 4000, 3000], [2000, 1000, 1500]))[1:] == [
        "| one record a request | ≥ 3 | Barnabas | 3,000 requests/s (2,000–4,000) | 90 µs | 200 µs | 30.0 µs a request "
        "| 40 % | 4.0 | 300 MB | **2.00** (1.00–4.00) | 0.50 | 0.30 |",
        "|  |  | Apache Kafka | 1,500 requests/s (1,000–2,000) |  |  | 60.0 µs a request | 25 % |  | 1,000 MB "
        "|  |  |  |",
    ]


def test_a_side_whose_cpu_falls_from_turn_to_turn_is_said_to_be_warming() -> None:
    row = row_of([2000, 2100, 2200], [1000, 1500, 2000])
    for sample, cpu in zip(row.samples[KAFKA], (100.0, 90.0, 79.0), strict=True):
        sample.cpu = cpu
    assert (row.is_warming(OURS), row.is_warming(KAFKA)) == (False, True)
    assert "| Apache Kafka | 1,500 requests/s (1,000–2,000), still warming |" in table_lines(row)[-1]
    for cpus in ([100.0, 90.0, 81.0], [100.0, 101.0, 50.0]):
        for sample, cpu in zip(row.samples[KAFKA], cpus, strict=True):
            sample.cpu = cpu
        assert not row.is_warming(KAFKA), cpus
    del row.samples[KAFKA][2]
    assert not row.is_warming(KAFKA), "of two turns one may be chance"


def test_a_row_without_apache_kafka_has_no_ratios() -> None:
    row = row_of([2.5], [])
    del row.samples[KAFKA]
    assert table_lines(row)[-1].endswith("| 40 % | 4.0 | 300 MB |  |  |  |")


def test_a_row_that_fails_says_why_and_leaves_the_others_alone() -> None:
    stage = Stage({}, {}, QUICK, lambda line: None)

    def fails() -> Sample:
        raise RuntimeError("no leader")

    with stage.row(Row("first", "the first", "", "s")) as row:
        take_in_turn(row, {OURS: fails}, 3, lambda line: None)
    with stage.row(Row("second", "the second", "", "s")) as row:
        row.samples = {}
    assert [row.failure for row in stage.rows] == ["RuntimeError: no leader", ""]
    assert failures(stage.rows) == ["the first: RuntimeError: no leader"]
    assert "- **not measured**: the first: RuntimeError: no leader" in stage_text(
        StageRun("one broker", {}, stage.rows)
    )


def test_a_row_whose_sides_run_only_while_they_are_measured_has_no_memory() -> None:
    stage = Stage({}, {}, WHOLE, lambda line: None)
    with stage.row(Row("make-up", "make up", "", "s")) as row:
        stage.take(row, {OURS: lambda: Sample(6.0), KAFKA: lambda: Sample(3.0)}, 2)
    assert row.failure == ""
    assert row.memory_bytes == {}
    assert row.median(OURS) == 6.0


def test_an_interrupt_is_no_failure_of_a_row() -> None:
    stage = Stage({}, {}, QUICK, lambda line: None)
    with pytest.raises(KeyboardInterrupt), stage.row(Row("first", "the first", "", "s")):
        raise KeyboardInterrupt


def test_a_busy_machine_is_named_as_one() -> None:
    run = run_of()
    assert "Python 3.11 (PGO and LTO), load average before it 0.10." in head(run, report.ROOT / "x.json")
    assert "busy" not in head(run, report.ROOT / "x.json")
    run.machine = MACHINE | {"load average before": "7.00"}
    assert "**The machine was busy.**" in head(run, report.ROOT / "x.json")


@pytest.mark.parametrize(
    ("lane", "is_quick", "section"),
    [
        ("on", False, "make bench, one broker"),
        ("on", True, "make bench QUICK=1"),
        ("off", True, "BARNABAS_LANE=off make bench QUICK=1"),
    ],
)
def test_a_run_updates_its_own_section_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lane: str, is_quick: bool, section: str
) -> None:
    real = report.PAGE.read_text()
    page = tmp_path / "performance.md"
    page.write_text(real)
    monkeypatch.setattr(report, "PAGE", page)
    run = run_of(row_of([2000], [1000]), is_quick=is_quick, lane=lane)
    assert write_page(run, report.ROOT / "x.json") == [section]
    begin, end = f"<!-- made by {section}: begin -->", f"<!-- made by {section}: end -->"
    before, _, rest = page.read_text().partition(begin)
    inside, _, after = rest.partition(end)
    assert "| one record a request |" in inside
    assert real.startswith(before)
    assert real.endswith(after)
    assert (tmp_path / "performance.svg").exists() == (not is_quick)


def test_a_section_that_the_page_does_not_have_is_not_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "performance.md"
    page.write_text("nothing\n")
    monkeypatch.setattr(report, "PAGE", page)
    assert write_page(run_of(row_of([2000], [1000]), lane="off"), report.ROOT / "x.json") == []
    assert page.read_text() == "nothing\n"


def test_a_whole_run_takes_five_turns_and_what_a_quick_one_leaves_out() -> None:
    assert WHOLE.turns == 5
    assert WHOLE.connections == 20_000
    assert WHOLE.topics_of_1000 == 10
    assert WHOLE.groups * 10 == 10_000
    assert not QUICK.connections


def test_a_quick_run_of_one_stage_takes_that_stage() -> None:
    """It failed, since it has no stage `starting up` to leave out."""
    assert stages_of(QUICK, ("three brokers",)) == ["three brokers"]
    assert stages_of(QUICK, ()) == ["one broker", "three brokers"]
    assert stages_of(WHOLE, ()) == ["one broker", "three brokers", "starting up"]


def test_the_side_with_a_virtual_machine_is_warmed_up_before_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, float, str]] = []

    class Loaded:
        def __init__(self, side: object, load: Load, seconds: float, touched_bytes: int, warm_ups: int) -> None:
            self.is_seen = (side, seconds, load.name)
            assert (touched_bytes, warm_ups) == (0, 1)

        def warm_up(self) -> None:
            seen.append(self.is_seen)

        def clean_up(self) -> None:
            pass

    monkeypatch.setattr(stage_module, "LoadOnSide", Loaded)
    sides = {name: cast("Side", name) for name in (OURS, KAFKA, KFAKE)}
    Stage(sides, {}, QUICK, lambda line: None).warm_up(LOADS[0])
    assert seen == [(KAFKA, QUICK.stage_warm_up_seconds, "single")]


def test_without_go_there_is_no_kfake_and_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kfake, "_CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(kfake.KfakeMissingError, match="there is no go on PATH"):
        kfake.build()


def test_kfake_that_does_not_build_says_what_go_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "bin/go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho 'module lookup disabled' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setattr(kfake, "_CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", f"{go.parent}:/bin:/usr/bin")
    with pytest.raises(kfake.KfakeMissingError, match="go build failed: module lookup disabled"):
        kfake.build()
