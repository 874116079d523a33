"""A page of the grid: one row for each cell, each with the run that it is of."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from tests.faults.checker.verdict import Apart, Kind
from tests.faults.report import RESULTS, last_lines, page_of, save
from tests.faults.rows import Row, Run, without_directories

WHOLE = Run("python -m tests.faults", "aaaaaaaaaaaa", "2026-01-01", "2 cores")
LATER = Run("python -m tests.faults --cells rack --save grid", "bbbbbbbbbbbb", "2026-01-02", "2 cores")


def row(cell: str, run: Run = WHOLE, *, lost: int = 0, at_cut_off_leader: int = 0, failover_ms: int = 10) -> Row:
    return Row(
        cell=cell,
        run=run,
        passed=not lost,
        skipped="",
        failures=[],
        seconds=30.0,
        failover_ms=failover_ms,
        goal_ms=2000,
        return_ms=5,
        settle_seconds=1.0,
        injections=["a fault"],
        load=1.5,
        counts={**dict.fromkeys(map(str, Kind), 0), str(Kind.LOST): lost},
        apart={str(Apart.AT_CUT_OFF_LEADER): at_cut_off_leader},
    )


def line_of(page: str, cell: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {cell} |")]
    return [column.strip() for column in line.strip("|").split("|")]


def test_cells_played_alone_take_the_place_of_their_rows(tmp_path: Path) -> None:
    page = tmp_path / "grid.md"
    save([row("kill-leader"), row("rack", lost=2), row("bridge", lost=1)], page)
    save([row("rack", LATER, at_cut_off_leader=3)], page)
    text = page.read_text()
    assert [line_of(text, cell)[-1] for cell in ("kill-leader", "rack", "bridge")] == [
        WHOLE.commit,
        LATER.commit,
        WHOLE.commit,
    ]
    assert line_of(text, "rack")[4:6] == ["none", "3"]
    assert f"- `{LATER.command}` at {LATER.commit} on {LATER.date}: {LATER.machine}, load 1.5 to 1.5." in text
    assert "failed 1 (bridge)" in text
    assert text.rstrip("`\n").endswith("3 cells, lost 1, duplicated 0, reordered 0"), "over all rows"


def test_a_cell_that_is_no_more_leaves_the_page(tmp_path: Path) -> None:
    page = tmp_path / "grid.md"
    save([row("rack"), row("a-cell-of-old")], page)
    assert "a-cell-of-old" not in page.read_text()


def test_the_saved_page_is_what_its_rows_say() -> None:
    rows = msgspec.json.decode((RESULTS / "grid.json").read_bytes(), type=list[Row])
    assert (RESULTS / "grid.md").read_text() == page_of(rows)


def test_what_fails_and_what_is_slow_is_named() -> None:
    notes, counts = last_lines([row("rack", lost=1), row("bridge", failover_ms=2001), row("kill-leader")])
    assert notes.endswith("skipped 0, failed 1 (rack), slower than the goal 1 (bridge)")
    assert counts == "3 cells, lost 1, duplicated 0, reordered 0"


def test_a_saved_command_names_no_directory_of_one_machine() -> None:
    assert without_directories(["--seconds", "60", "--keep", "/home/me/kept"]) == ["--seconds", "60", "--keep", "kept"]
    for saved in RESULTS.glob("*.json"):
        commands = re.findall(r'"command": "(.*)"', saved.read_text())
        assert [each for each in commands if re.search(r"(^| )/", each)] == [], saved
