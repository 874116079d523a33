"""One run of a comparison: both sides up, every load on each of them in turn, everything down again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from bench.loads import Load
from bench.measure import compare
from bench.report import Run, client_version, commit, describe_machine, utc_now, without_paths
from bench.sides import Side

PAIRS_MIN_TO_SAVE: Final = 5
_QUIET_LOAD_MAX: Final = 0.5


def take(sides: tuple[Side, Side], loads: Sequence[Load], pairs: int, seconds: float, command: str) -> Run:
    """Ours first; `seconds` of each measurement."""
    ours, theirs = sides
    machine = describe_machine()
    if float(machine["load average before"]) > _QUIET_LOAD_MAX:
        click.secho("this machine is busy: ratios will scatter", fg="yellow")
    started: list[Side] = []
    try:
        for side in sides:
            click.echo(f"starting {side.name}")
            started.append(side)
            side.start()
        results = compare(ours, theirs, pairs, seconds, loads)
        return Run(
            command=command,
            commit=commit(),
            taken=utc_now(),
            machine=machine,
            client=client_version(),
            ours=ours.name,
            theirs=theirs.name,
            flags_ours=without_paths(ours.flags),
            flags_theirs=without_paths(theirs.flags),
            seconds_per_measurement=seconds,
            loads=results,
        )
    finally:
        for side in started:
            side.stop()
