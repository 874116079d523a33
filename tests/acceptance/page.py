"""docs/verify/acceptance.md: what `make acceptance` last showed, between its two marks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.acceptance.expected import Row
from tests.acceptance.outcomes import Outcome
from tests.acceptance.results import Saved
from tests.compat.building import ROOT

PAGE: Final = ROOT / "docs/verify/acceptance.md"
BEGIN: Final = "<!-- what `make acceptance` writes -->"
END: Final = "<!-- to here -->"
_UNEXPECTED_MAX: Final = 20


def section(saved: list[Saved], titles: Mapping[str, str], tables: Mapping[str, list[Row]]) -> str:
    """Return the summary of all suites, then the deviations of each. A suite that was never run says so."""
    by_suite = {each.suite: each for each in saved}
    lines = _heading(
        "suite", "commit", "day", "build", "seconds", "passed", "failed", "skipped", "Kafka passes", "verdict"
    )
    for suite, title in titles.items():
        kafka = sum(row.kafka is Outcome.PASS for row in tables[suite])
        lines.append(_summary(f"`{suite}`: {title}", by_suite.get(suite), kafka))
    for suite in titles:
        run = by_suite.get(suite)
        lines += ["", f"### {suite}", "", *_deviations(tables[suite])]
        if run is not None and run.unexpected:
            lines += ["", "What its last run showed unexpectedly:", ""]
            lines += [f"- {_cell(line)}" for line in run.unexpected[:_UNEXPECTED_MAX]]
            more = len(run.unexpected) - _UNEXPECTED_MAX
            lines += [f"- and {more} more"] if more > 0 else []
    return "\n".join(lines)


def write(saved: list[Saved], titles: Mapping[str, str], tables: Mapping[str, list[Row]]) -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{section(saved, titles, tables)}\n\n{END}{rest.split(END)[1]}")


def _summary(title: str, run: Saved | None, kafka: int) -> str:
    if run is None:
        return _row(title, "never run", *["–"] * 6, str(kafka), "–")
    verdict = f"{len(run.unexpected)} unexpected" if run.unexpected else "as expected"
    counts = (run.seconds, run.passed, run.failed, run.skipped, kafka)
    return _row(title, f"`{run.commit}`", run.day, run.build, *map(str, counts), verdict)


def _deviations(rows: list[Row]) -> list[str]:
    """Return a table of the tests that Barnabas is expected to show otherwise than Kafka, one line for each reason."""
    alike: dict[tuple[Outcome, Outcome, str], list[str]] = {}
    for row in rows:
        if row.is_deviation:
            alike.setdefault((row.barnabas, row.kafka, row.reason), []).append(f"`{_cell(row.test)}`")
    if not alike:
        return ["No test is expected to show anything else than with Kafka."]
    lines = _heading("test", "Barnabas", "Kafka", "why")
    return lines + [_row(", ".join(tests), ours, theirs, _cell(why)) for (ours, theirs, why), tests in alike.items()]


def _heading(*names: str) -> list[str]:
    return [_row(*names), _row(*["---"] * len(names))]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
