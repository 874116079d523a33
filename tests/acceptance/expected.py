"""The tables of expected results: tests/acceptance/expected/<suite>.tsv.

Columns: the test, what it is expected to show with Barnabas, what it shows with Apache Kafka, and why the two differ.
A result that differs from the table is wrong either way: a test that passes unexpectedly has a row to be mended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.acceptance.outcomes import Outcome, Outcomes

FOLDER: Final = Path(__file__).parent / "expected"
_HEADING: Final = ("test", "barnabas", "kafka", "reason")


class TableError(Exception):
    """A table that says too little, or twice; the message names the line."""


@dataclass(slots=True, frozen=True)
class Row:
    test: str
    barnabas: Outcome
    kafka: Outcome
    reason: str = ""
    """Empty exactly where both are the same."""

    @property
    def is_deviation(self) -> bool:
        return self.barnabas is not self.kafka


def path_of(suite: str) -> Path:
    return FOLDER / f"{suite}.tsv"


def read(path: Path) -> list[Row]:
    """Raises TableError."""
    if not path.exists():
        return []
    heading, *lines = path.read_text().splitlines()
    if tuple(heading.split("\t")) != _HEADING:
        raise TableError(f"{path.name}: the first line is not {' '.join(_HEADING)}")
    rows = [_row(f"{path.name}:{number}", line) for number, line in enumerate(lines, 2)]
    if len({row.test for row in rows}) < len(rows):
        raise TableError(f"{path.name}: a test has two rows")
    return rows


def _row(place: str, line: str) -> Row:
    columns = line.split("\t")
    if len(columns) != len(_HEADING):
        raise TableError(f"{place}: {len(columns)} columns instead of {len(_HEADING)}")
    test, barnabas, kafka, reason = columns
    try:
        return Row(test, Outcome(barnabas), Outcome(kafka), reason)
    except ValueError as error:
        raise TableError(f"{place}: {error}") from None


def write(rows: Iterable[Row], path: Path) -> None:
    lines = ["\t".join((row.test, row.barnabas, row.kafka, row.reason)) for row in rows]
    path.write_text("\n".join(["\t".join(_HEADING), *lines]) + "\n")


def without_reason(rows: Iterable[Row]) -> list[str]:
    """Return the tests that deviate from Kafka for no reason, or have a reason and don't deviate."""
    return [row.test for row in rows if row.is_deviation != bool(row.reason.strip())]


def unexpected(rows: Iterable[Row], outcomes: Outcomes, *, of_kafka: bool = False) -> list[str]:
    """Return a line for each test that shows something else than its row."""
    by_test = {row.test: row for row in rows}
    lines = []
    for test in dict.fromkeys([*by_test, *outcomes]):
        shown = outcomes.get(test, Outcome.ABSENT)
        row = by_test.get(test)
        if row is None:
            lines.append(f"{test}: {shown}, and has no row in the table")
        elif shown is not (wanted := row.kafka if of_kafka else row.barnabas):
            lines.append(f"{test}: {shown} instead of {wanted}")
    return lines


def learned(rows: list[Row], outcomes: Outcomes, *, of_kafka: bool = False) -> list[Row]:
    """Return the table with what was shown. New tests come last; reasons are left to whom mends the table."""
    by_test = {row.test: row for row in rows}
    for test in outcomes:
        by_test.setdefault(test, Row(test, Outcome.ABSENT, Outcome.ABSENT))
    changed = []
    for test, row in by_test.items():
        shown = outcomes.get(test, Outcome.ABSENT)
        new = replace(row, kafka=shown) if of_kafka else replace(row, barnabas=shown)
        changed.append(new if new.is_deviation else replace(new, reason=""))
    return [row for row in changed if {row.barnabas, row.kafka} != {Outcome.ABSENT}]
