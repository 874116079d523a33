"""`python -m bench.omb`: OpenMessaging Benchmark's documented workloads, on Barnabas and Apache Kafka in turn.

The load is a driver of our own with Apache Kafka's Java clients (bench/omb/java), in the steps and with the settings
of OpenMessaging Benchmark, scaled to what two processors can do. A whole run of all workloads with at least three turns
is saved under bench/results and in docs/verify/omb.md, a quick one of all under bench/results alone; others are only
shown.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from barnabas.cores import COMPILED, running
from barnabas_cli.local.processes import raise_open_files_limit
from bench.apache_kafka import VERSION, need_apache_kafka
from bench.compared_run import fields_of_run, started
from bench.ending import end_in_order
from bench.omb.load_process import compiled_classes
from bench.omb.page import BEGIN, END, PAGE, section
from bench.omb.processors import Placement, place, processors_of, running_on
from bench.omb.results import OmbRun, WorkloadResult
from bench.omb.turns import Turns
from bench.omb.workloads import QUICK, WHOLE, WORKLOADS, Options, Scale, Workload, parse_workload, workload_named
from bench.report import ROOT, describe_machine, is_busy, save_figures, write_section
from bench.sides import ApacheKafkaSide, BarnabasSide

TURNS_MIN_TO_PUBLISH: Final = 3
_DIRECTORY: Final = ROOT / ".cache/bench-omb"


@click.command()
@click.option("--quick", is_flag=True, help="One turn of 3 s each, without a word on the page.")
@click.option(
    "--shape", "names", multiple=True, type=click.Choice([each.name for each in WORKLOADS]), help="Only these."
)
@click.option(
    "--workload", "files", multiple=True, type=click.Path(exists=True, path_type=Path), help="A workload file instead."
)
@click.option(
    "--turns", type=click.IntRange(1), help=f"Of both sides; default {WHOLE.turns}, or {QUICK.turns} if quick."
)
@click.option("--logstores", type=click.Choice(["1", "3"]), default="3", show_default=True, help="And brokers.")
@click.option("--placement", type=click.Choice([each.value for each in Placement]), default="apart", show_default=True)
@click.option("--in-flight", type=click.IntRange(1, 5), default=1, show_default=True, help="Requests on a connection.")
def main(
    quick: bool,
    names: tuple[str, ...],
    files: tuple[Path, ...],
    turns: int | None,
    logstores: str,
    placement: str,
    in_flight: int,
) -> None:
    """Measure, show the figures, and save what is whole."""
    end_in_order()
    need_apache_kafka()
    raise_open_files_limit()
    scale = QUICK if quick else WHOLE
    scale = replace(scale, turns=turns or scale.turns)
    wanted = wanted_workloads(names, files)
    run = _measure(wanted, scale, Options(int(logstores), in_flight), Placement(placement), quick)
    is_all = not names and not files and run.replicas > 1
    path = save_figures(run, "omb-quick" if quick else "omb") if is_all else ROOT / "not saved"
    text = section(run, path)
    click.echo("\n" + text)
    if is_all and not quick and run.scale.turns >= TURNS_MIN_TO_PUBLISH:
        write_section(PAGE, BEGIN, END, text)
        click.echo(f"updated {PAGE.relative_to(ROOT)}")
    sys.exit(1 if any(result.failures for result in run.results) else 0)


def wanted_workloads(names: tuple[str, ...], files: tuple[Path, ...]) -> list[Workload]:
    """Return those that are named and those of files; neither: all that are documented.

    Raises ClickException: a file is none of OpenMessaging Benchmark's.
    """
    try:
        found = [workload_named(name) for name in names] + [
            parse_workload(each.stem, each.read_text()) for each in files
        ]
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    return found or list(WORKLOADS)


def _measure(wanted: list[Workload], scale: Scale, options: Options, placement: Placement, is_quick: bool) -> OmbRun:
    began = time.monotonic()
    machine = describe_machine()
    if is_busy(machine):
        click.secho("this machine is busy: ratios will scatter", fg="yellow")
    if running() != COMPILED:
        click.secho("these are interpreted cores: after make compiled the same run measures compiled ones", fg="yellow")
    try:
        processors = place(placement, os.sched_getaffinity(0))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    compiled_classes()
    shutil.rmtree(_DIRECTORY, ignore_errors=True)
    ours = BarnabasSide(_DIRECTORY / "barnabas", options.replicas)
    theirs = ApacheKafkaSide(_DIRECTORY / "apache-kafka", options.replicas)
    results = [WorkloadResult(workload) for workload in wanted]
    with contextlib.ExitStack() as stack:
        with running_on(processors.sides):
            stack.enter_context(started(ours, theirs))
        stack.enter_context(running_on(processors.load))
        turns = stack.enter_context(Turns(ours, theirs, scale, options, _DIRECTORY / "load", click.echo))
        places = {side.name: sorted(processors_of(side.sessions)) for side in (ours, theirs)}
        places["the load"] = sorted(processors.load)
        if any(set(found) != processors.sides for name, found in places.items() if name != "the load"):
            raise click.ClickException(f"not where they should be: {places}")
        turns.warm_up()
        turns.take(results)
        client = f"kafka-clients {VERSION} in one process (Java {turns.java_version})"
        fields = fields_of_run("bench.omb", machine, (ours, theirs), options.replicas)
    shutil.rmtree(_DIRECTORY)
    return OmbRun(
        **fields,
        is_quick=is_quick,
        scale=scale,
        in_flight=options.in_flight,
        placement=placement.value,
        processors=places,
        client=client,
        seconds=time.monotonic() - began,
        results=results,
    )


if __name__ == "__main__":
    main()
