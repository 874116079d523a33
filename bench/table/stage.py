"""One stage of the table: sides that run at the same time, and the rows that are taken of them."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from barnabas_cli.local import processes
from bench.accounting import memory_bytes
from bench.loads import Load
from bench.measure import LoadOnSide
from bench.sides import Side
from bench.table.rows import KAFKA, Row, Sample, Say, take_in_turn
from bench.table.scale import Scale


class Stage:
    """Rows in the order in which they were taken; one that fails says why and leaves the others alone."""

    def __init__(self, sides: Mapping[str, Side], homes: Mapping[str, Path], scale: Scale, say: Say) -> None:
        """`sides` by name, and the directory of each. All of them run."""
        self.sides = dict(sides)
        self.homes = dict(homes)
        self.scale = scale
        self.say = say
        self.rows: list[Row] = []

    @contextlib.contextmanager
    def row(self, row: Row) -> Iterator[Row]:
        """Keep the row whatever happens to it within the block, and go on with the next one."""
        self.say(row.title)
        self.rows.append(row)
        began = time.monotonic()
        try:
            yield row
        except Exception as error:
            traceback.print_exc()
            row.failure = f"{type(error).__name__}: {error}"
        row.seconds = round(time.monotonic() - began, 1)
        row.samples = {side: samples for side, samples in row.samples.items() if samples}
        row.memory_bytes = self.memory_bytes(row.samples) | row.memory_bytes

    def warm_up(self, load: Load) -> None:
        """Have Apache Kafka see a load for so long as its virtual machine compiles; the other sides compile nothing."""
        self.say(f"warming up {KAFKA}")
        loaded = LoadOnSide(self.sides[KAFKA], load, self.scale.stage_warm_up_seconds, 0, warm_ups=1)
        loaded.warm_up()
        loaded.clean_up()

    def take(self, row: Row, takers: Mapping[str, Callable[[], Sample]], turns: int | None = None) -> None:
        take_in_turn(row, takers, turns or self.scale.turns, self.say)

    def memory_bytes(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sum of PSS of all processes, by side; a side that has no processes here is left out."""
        return {name: memory_bytes(self.sides[name].sessions) for name in names if name in self.sides}

    def of(self, *names: str) -> dict[str, Side]:
        """Return the sides of these names that there are."""
        return {name: self.sides[name] for name in names if name in self.sides}


@contextlib.contextmanager
def running_sides(sides: Mapping[str, Side], say: Say) -> Iterator[None]:
    """Start all sides at once, and kill them at the end: what they have written is not needed any more."""
    say(f"starting {', '.join(sides)}")
    try:
        at_once(lambda side: side.start(), sides.values())
        yield
    finally:
        processes.stop([session for side in sides.values() for session in side.sessions], grace_seconds=0.0)


def at_once(act: Callable[[Side], None], sides: Iterable[Side]) -> None:
    """Do to all sides at the same time what is not measured; return when it is done to each. Raises what the first
    raises.
    """
    with ThreadPoolExecutor() as acting:
        list(acting.map(act, sides))


def failures(rows: Sequence[Row]) -> list[str]:
    return [f"{row.title}: {row.failure}" for row in rows if row.failure]
