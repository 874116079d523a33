"""A run of Barnabas beside Apache Kafka that is saved as a whole: its sides, what it says of itself, and its file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import click

from bench.report import PAGE, ROOT, command_line, commit, provenance, utc_now, without_paths, write_section
from bench.sides import Side

PAIRS_MIN_TO_SAVE: Final = 5


@dataclass(slots=True)
class ComparedRun:
    """What every such run says; subclasses have what was compared."""

    command: str
    commit: str
    taken: str
    """UTC."""
    machine: dict[str, str]
    ours: str
    theirs: str
    replicas: int
    """As many logstores and brokers."""
    flags_ours: dict[str, str]
    flags_theirs: dict[str, str]

    def head(self, client: str, path: Path) -> str:
        """Return the sentence above the table; `client` says what loads the sides, and what they are set to."""
        return f"{provenance(self, f'; {client}')} All figures: `{path.relative_to(ROOT)}`."

    @property
    def replicas_in_words(self) -> str:
        return "one replica" if self.replicas == 1 else f"{self.replicas} replicas"


def fields_of_run(module: str, machine: dict[str, str], sides: tuple[Side, Side], replicas: int) -> dict[str, Any]:
    """Return the fields that every compared run has. `machine` was described before the run; `sides`: ours, theirs."""
    ours, theirs = sides
    run = ComparedRun(
        command_line(module),
        commit(),
        utc_now(),
        machine,
        ours.name,
        theirs.name,
        replicas,
        without_paths(ours.flags),
        without_paths(theirs.flags),
    )
    return {each.name: getattr(run, each.name) for each in fields(run)}


@contextlib.contextmanager
def started(*sides: Side) -> Iterator[None]:
    """Start the sides one after the other, and stop at the end those whose start has begun."""
    with contextlib.ExitStack() as stack:
        for side in sides:
            click.echo(f"starting {side.name}")
            stack.callback(side.stop)
            side.start()
        yield


def publish(target: str, run: ComparedRun, path: Path, table: str) -> None:
    """Put the table of a saved run where docs/verify/performance.md has that of the make target."""
    made_by = f"made by make {target}" if run.replicas == 1 else f"made by make {target} LOGSTORES=3"
    write_section(PAGE, f"<!-- {made_by}: begin -->", f"<!-- {made_by}: end -->", table)
    click.echo(f"\nsaved {path.relative_to(ROOT)}")
