"""Every design under every backlog: what is measured, and what is kept of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from bench.control.changes import LeaderChange, LeaderChanges
from bench.control.cluster import IDLE, LOADED, MeasuredCluster
from bench.control.designs import Design

QUEUED_MAX_REQUESTS = 500
"""Kafka's default, and ours."""
_WARM_UP_CHANGES = 10
_SETTLE_SECONDS = 0.5
_SECONDS_MAX = 600.0
"""Of everything: with slow points there are fewer leader changes, not more time."""
_POINT_SECONDS_MAX = 15.0


@dataclass(slots=True, frozen=True)
class Offered:
    """Appends kept unanswered, in percent of the channel's places; at the loaded logstore, or at another one."""

    percent: int
    elsewhere: bool = False

    @property
    def appends(self) -> int:
        return QUEUED_MAX_REQUESTS * self.percent // 100

    @property
    def name(self) -> str:
        return f"{self.percent} % elsewhere" if self.elsewhere else f"{self.percent} %"


@dataclass(slots=True)
class Point:
    """One design under one backlog: its leader changes over all rounds, and how the load and the machine fared."""

    design: Design
    backlog: Offered
    changes: list[LeaderChange] = field(default_factory=list)
    appends_per_second: list[float] = field(default_factory=list)
    appends_without_credit: list[int] = field(default_factory=list)
    machine_busy: list[float] = field(default_factory=list)
    """Part of the time that the machine's cores were not idle, one figure a round."""

    @property
    def acknowledged(self) -> list[float]:
        return [change.acknowledged for change in self.changes]

    @property
    def parked_failed(self) -> list[float]:
        return [change.parked_failed for change in self.changes if change.parked_failed is not None]


def measure(
    directory: Path,
    designs: Sequence[Design],
    backlogs: Sequence[Offered],
    changes: int,
    rounds: int,
    value_bytes: int,
    say: Callable[[str], None],
) -> list[Point]:
    """`changes` leader changes each way per point and round; the designs take turns, each in a cluster of its own."""
    points = {(design, backlog): Point(design, backlog) for design in designs for backlog in backlogs}
    deadline = time.monotonic() + _SECONDS_MAX
    turns = [(number, design) for number in range(rounds) for design in designs]
    for turn, (number, design) in enumerate(turns):
        say(f"round {number + 1} of {rounds}: {design}")
        shutil.rmtree(directory, ignore_errors=True)
        with MeasuredCluster(directory, design, value_bytes) as cluster:
            measured = [points[design, backlog] for backlog in backlogs]
            share = (deadline - time.monotonic()) / (len(turns) - turn) / len(backlogs)
            # Most points are far quicker than their share.
            _measure_round(cluster, measured, changes, min(_POINT_SECONDS_MAX, max(1.0, 2 * share)))
    return list(points.values())


def _measure_round(cluster: MeasuredCluster, points: Sequence[Point], changes: int, point_seconds_max: float) -> None:
    with closing(LeaderChanges(cluster)) as leader_changes:
        leader_changes.measure(_WARM_UP_CHANGES, point_seconds_max)
        for point in points:
            load = cluster.backlogs[IDLE if point.backlog.elsewhere else LOADED]
            standing = load.offer(point.backlog.appends)
            time.sleep(_SETTLE_SECONDS)
            before, began, busy = load.standing() or standing, time.monotonic(), _busy_and_all()
            point.changes += leader_changes.measure(changes, point_seconds_max)
            after, ended, busy_after = load.offer(0), time.monotonic(), _busy_and_all()
            assert not after.refused, "the load was not taken"
            point.appends_per_second.append(round((after.answered - before.answered) / (ended - began)))
            point.appends_without_credit.append(before.without_credit)
            busy_part = (busy_after[0] - busy[0]) / max(1, busy_after[1] - busy[1])
            point.machine_busy.append(round(busy_part, 2))
            time.sleep(_SETTLE_SECONDS)


def _busy_and_all() -> tuple[int, int]:
    """Ticks of all cores since the machine's start."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * part) - 1)] if ordered else float("nan")
