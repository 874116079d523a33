"""`python -m tests.acceptance`: other people's suites against three logstores, into docs/verify/acceptance.md."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from barnabas.cores import COMPILED, INTERPRETED
from barnabas_cli.local.cluster import ClusterError
from tests.acceptance import clusters, expected, page, results
from tests.acceptance.outcomes import Outcome, Outcomes, count, executed
from tests.acceptance.suite import Suite
from tests.acceptance.suites import SUITES
from tests.compat.building import UnavailableError
from tests.compat.matrix.results import commit, today
from tests.faults.cluster import signals_end_the_run

_AGAINST: Final = ("barnabas", "kafka", "nothing")


@dataclass(slots=True, frozen=True)
class Options:
    against: str
    start: clusters.Start
    learns: bool
    saves: bool
    skips_unavailable: bool
    attempts: int

    @property
    def is_of_kafka(self) -> bool:
        return self.against == "kafka"


@click.command()
@click.option("--suite", "names", multiple=True, type=click.Choice(list(SUITES)), help="All of them if none is named.")
@click.option("--cores", type=click.Choice([COMPILED, INTERPRETED]), help="Those of `make compiled` if current.")
@click.option("--against", type=click.Choice(_AGAINST), default="barnabas", show_default=True)
@click.option("--learn", "learns", is_flag=True, help="Write what was shown into the table of expected results.")
@click.option("--save/--no-save", "saves", default=True, show_default=True, help="Into the page; Barnabas alone.")
@click.option("--skip-unavailable", "skips_unavailable", is_flag=True, help="Pass where a suite can't be brought.")
@click.option("--attempts", default=1, show_default=True, help="Runs of a suite, at most, until one is as expected.")
def main(
    names: tuple[str, ...],
    cores: str | None,
    against: str,
    learns: bool,
    saves: bool,
    skips_unavailable: bool,
    attempts: int,
) -> None:
    """Run the suites; exits with 1 on any result that its table does not expect."""
    signals_end_the_run()
    starts: dict[str, clusters.Start] = {"kafka": clusters.kafka, "nothing": clusters.nothing}
    start = starts.get(against) or clusters.barnabas(cores or clusters.cores_here())
    options = Options(against, start, learns, saves and against == "barnabas", skips_unavailable, attempts)
    verdicts = [_run(SUITES[name], options) for name in names or SUITES]
    sys.exit(not all(verdicts))


def _run(suite: Suite, options: Options) -> bool:
    """Return whether all is as expected in one of the attempts."""
    click.echo(f"== {suite.name}: {suite.title}")
    try:
        directory = suite.bring()
    except UnavailableError as reason:
        click.echo(f"{suite.name}: {'skipped' if options.skips_unavailable else 'not run'}: {reason}")
        return options.skips_unavailable
    for attempt in range(1, options.attempts + 1):
        if _attempt(suite, directory, options):
            return True
        if attempt < options.attempts:
            click.echo(f"{suite.name}: attempt {attempt} of {options.attempts} differed; once more")
    return False


def _attempt(suite: Suite, directory: Path, options: Options) -> bool:
    logs = clusters.CACHE / "logs" / suite.name
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    begin = time.monotonic()
    outcomes: Outcomes = {}
    problems: list[str] = []
    build = "not started"
    try:
        with options.start(suite) as (broker, build):
            click.echo(f"{suite.name}: {broker.brokers} brokers at {broker.bootstrap}, {build}")
            outcomes = suite.run(directory, broker, logs)
    except (clusters.EndedError, ClusterError) as error:
        problems.append(str(error))
    seconds = round(time.monotonic() - begin)
    problems += _differences(suite, outcomes, options)
    _report(suite, outcomes, problems, seconds, logs)
    if options.saves:
        _save(suite, outcomes, problems, build, seconds)
    return not problems


def _differences(suite: Suite, outcomes: Outcomes, options: Options) -> list[str]:
    """Compare with the table, after it was written if that was asked for."""
    path = expected.path_of(suite.name)
    rows = expected.read(path)
    if not executed(outcomes):
        return ["no test was executed"]
    if options.learns:
        rows = expected.learned(rows, outcomes, of_kafka=options.is_of_kafka)
        expected.write(rows, path)
    problems = expected.unexpected(rows, outcomes, of_kafka=options.is_of_kafka)
    return problems + [f"{test}: the table has no reason for its deviation" for test in expected.without_reason(rows)]


def _report(suite: Suite, outcomes: Outcomes, problems: list[str], seconds: int, logs: Path) -> None:
    for problem in problems:
        click.echo(f"  {problem}")
    passed, failed, skipped = (count(outcomes, each) for each in (Outcome.PASS, Outcome.FAIL, Outcome.SKIP))
    verdict = f"{len(problems)} unexpected, logs in {logs}" if problems else "as expected"
    click.echo(f"{suite.name}: {passed} passed, {failed} failed, {skipped} skipped in {seconds} s: {verdict}")


def _save(suite: Suite, outcomes: Outcomes, problems: list[str], build: str, seconds: int) -> None:
    passed, failed, skipped = (count(outcomes, each) for each in (Outcome.PASS, Outcome.FAIL, Outcome.SKIP))
    first_lines = [problem.splitlines()[0] for problem in problems]
    new = results.Saved(suite.name, commit(), today(), build, seconds, passed, failed, skipped, first_lines)
    saved = results.save(new, list(SUITES))
    tables = {name: expected.read(expected.path_of(name)) for name in SUITES}
    page.write(saved, {name: each.title for name, each in SUITES.items()}, tables)
    click.echo(f"saved: {page.PAGE}")


if __name__ == "__main__":
    main()
