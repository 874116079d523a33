"""`python -m bench`: Barnabas, Apache Kafka and kfake side by side, in turn, on this machine.

Three stages, each with its own brokers: one broker, three brokers, and starting up. Every run is saved under
bench/results, after each stage. A run of at least five turns, or a quick one of all stages, also updates
docs/verify/performance.md. BARNABAS_LANE=off in the environment measures Barnabas by gRPC alone.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from barnabas.cores import COMPILED, running
from barnabas_cli.local.processes import raise_open_files_limit
from bench.apache_kafka import need_apache_kafka
from bench.ending import end_in_order
from bench.many_connections import connections_possible
from bench.report import (
    PAGE,
    ROOT,
    client_version,
    command_line,
    commit,
    describe_machine,
    is_busy,
    utc_now,
    without_paths,
)
from bench.sides import Side, lane_of_environment
from bench.table import one_broker, start_up, three_brokers
from bench.table.report import StageRun, TableRun, save_json, stage_text, write_page
from bench.table.rows import GRPC, KAFKA, KFAKE, OURS, Say
from bench.table.scale import QUICK, WHOLE, Scale
from bench.table.stage import Stage, failures, running_sides

TURNS_MIN_TO_SAVE = 5

Sides = Callable[[dict[str, Path], Scale, Say], dict[str, Side]]


def _no_sides(homes: dict[str, Path], scale: Scale, say: Say) -> dict[str, Side]:
    return {}


STAGES: dict[str, tuple[Sides, Callable[[Stage], None]]] = {
    "one broker": (one_broker.sides, one_broker.take),
    "three brokers": (three_brokers.sides, three_brokers.take),
    "starting up": (_no_sides, start_up.take),
}


@click.command()
@click.option("--pairs", type=click.IntRange(1), help="Turns of every side; default 5, or 3 in a quick run.")
@click.option("--quick", is_flag=True, help="Three minutes: fewer turns, smaller, without what takes long.")
@click.option("--stage", "wanted", multiple=True, type=click.Choice(list(STAGES)), help="Only these.")
def main(pairs: int | None, quick: bool, wanted: tuple[str, ...]) -> None:
    """Measure every row, save the figures, and update the page."""
    end_in_order()
    need_apache_kafka()
    scale = QUICK if quick else WHOLE
    scale = scale.with_turns(pairs or scale.turns)
    connections_possible(scale.connections)
    raise_open_files_limit()
    machine = describe_machine()
    if is_busy(machine):
        click.secho("this machine is busy: ratios will scatter", fg="yellow")
    if running() != COMPILED:
        click.secho("these are interpreted cores: after make compiled the same run measures compiled ones", fg="yellow")
    names = stages_of(scale, wanted)
    lane = lane_of_environment()
    began = time.monotonic()
    run = TableRun(
        command_line(), commit(), utc_now(), 0.0, machine, client_version(), lane, scale.is_quick, scale.turns
    )
    for name in names:
        run.stages.append(_take_stage(name, scale))
        run.seconds = time.monotonic() - began
        path = save_json(run)
        click.echo(f"\n{stage_text(run.stages[-1])}\n\nsaved {path.relative_to(ROOT)}")
    if (scale.is_quick and not wanted) or (not scale.is_quick and scale.turns >= TURNS_MIN_TO_SAVE):
        for section in write_page(run, path):
            click.echo(f"updated {PAGE.relative_to(ROOT)}: {section}")
    failed = [line for stage in run.stages for line in failures(stage.rows)]
    for line in failed:
        click.secho(f"not measured: {line}", fg="red", err=True)
    sys.exit(1 if failed else 0)


def stages_of(scale: Scale, wanted: tuple[str, ...]) -> list[str]:
    """Return the stages to take, in their order; none wanted: all that the scale has."""
    return [name for name in STAGES if (not wanted or name in wanted) and (scale.clones or name != "starting up")]


def _take_stage(name: str, scale: Scale) -> StageRun:
    make_sides, take = STAGES[name]
    directory = ROOT / ".cache/bench"
    shutil.rmtree(directory, ignore_errors=True)
    homes = {each: directory / each.lower().replace(", ", "-").replace(" ", "-") for each in (OURS, GRPC, KAFKA, KFAKE)}
    sides = make_sides(homes, scale, click.echo)
    with running_sides(sides, click.echo):
        stage = Stage(sides, homes, scale, click.echo)
        take(stage)
        flags = {each: without_paths(side.flags) for each, side in sides.items()}
    shutil.rmtree(directory, ignore_errors=True)
    return StageRun(name, flags, stage.rows)


if __name__ == "__main__":
    main()
