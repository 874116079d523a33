"""A thousand groups of ten that send heartbeats, on each side by a process of its own: a process may not open as many
files as both sides' members are.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

from barnabas_cli.local.processes import raise_open_files_limit
from bench.groups.measurements import (
    FORM_SECONDS_MAX,
    HEARTBEAT_SECONDS,
    SETTLE_SECONDS,
    Beats,
    Comparison,
    Meter,
    Sample,
    Say,
    in_turn,
)
from bench.groups.members import SESSION_TIMEOUT_MS, Group, Member, coordinators_of
from bench.groups.swarm import Swarm
from bench.sides import Side

GROUPS, MEMBERS_EACH = 1000, 10

_FORMED_AT_ONCE = 50
"""Groups whose members join at the same time, so that making them is no flood of its own."""
_SILENCE_SECONDS_MAX = SESSION_TIMEOUT_MS / 1000 / 2


class Beaten(NamedTuple):
    """What the members of one side have seen in a sample."""

    answered: int
    p99_ms: float
    own_percent: float
    """Of one core: what their process used."""


# --- in the members' process ------------------------------------------------------------------------------------------


def _beat(pipe: Connection, bootstrap: str, groups: int) -> None:
    """Form the groups, say so; then for each number of seconds that comes: beat so long, and say what was seen."""
    raise_open_files_limit()
    with Swarm() as swarm:
        beating = _BeatingGroups(swarm, bootstrap, groups)
        pipe.send(None)
        while (seconds := pipe.recv()) is not None:
            pipe.send(beating.sample(seconds, pipe))


class _BeatingGroups:
    def __init__(self, swarm: Swarm, bootstrap: str, groups: int) -> None:
        self._swarm = swarm
        named = [Group(f"bench-heartbeats-{number}") for number in range(groups)]
        addresses = coordinators_of(bootstrap, [group.group_id for group in named])
        self._members: list[Member] = []
        for begin in range(0, groups, _FORMED_AT_ONCE):
            formed = named[begin : begin + _FORMED_AT_ONCE]
            for group in formed:
                for _ in range(MEMBERS_EACH):
                    member = Member(swarm, swarm.connect(addresses[group.group_id]), group)
                    self._members.append(member)
                    member.join()
            swarm.run_for(SETTLE_SECONDS)
        swarm.run(lambda: all(group.is_whole_after(-1) for group in named), FORM_SECONDS_MAX)
        random.Random(1).shuffle(self._members)
        self._beats = Beats(swarm, [member.heartbeat for member in self._members])

    def sample(self, seconds: float, pipe: Connection) -> Beaten:
        """Says when every member beats, and the sample begins, and when it is over."""
        self._beats.begin()
        self._swarm.run_for(HEARTBEAT_SECONDS)
        for member in self._members:
            member.heartbeats = 0
            member.heartbeat_seconds.clear()
        began, own = time.perf_counter(), time.process_time()
        pipe.send(None)
        self._swarm.run_for(seconds)
        pipe.send(None)
        own_percent = (time.process_time() - own) / (time.perf_counter() - began) * 100
        self._beats.end()
        self._swarm.run_for(SETTLE_SECONDS)
        answered = sum(member.heartbeats for member in self._members)
        times = sorted(each for member in self._members for each in member.heartbeat_seconds)
        assert all(member.is_stable for member in self._members), "no member has to rejoin"
        return Beaten(answered, times[len(times) * 99 // 100] * 1e3, own_percent)


# --- here -------------------------------------------------------------------------------------------------------------


class _BeatingSide:
    """One side, and the process of its members."""

    def __init__(self, side: Side, groups: int) -> None:
        self._side = side
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_beat, args=(theirs, side.bootstrap, groups), daemon=True)
        self._process.start()
        theirs.close()

    def wait(self) -> None:
        """Wait for the members' next message. Raises EOFError when their process has ended: it has logged why."""
        self._pipe.recv()

    def sample(self, seconds: float, idle: Side) -> tuple[Sample, float, float]:
        """The sample; what `idle` used of a core in that time, and the members' process, in percent."""
        self._pipe.send(seconds)
        self.wait()
        idle_meter, meter = Meter(idle), Meter(self._side)
        self.wait()
        taken, cpu, _ = meter.stop()
        _, idle_cpu, _ = idle_meter.stop()
        beaten: Beaten = self._pipe.recv()
        sample = Sample(
            cpu.total / taken * 100,
            cpu.total / beaten.answered * 1e6,
            beaten.answered,
            taken,
            beaten.p99_ms,
            cpu.system / beaten.answered * 1e6,
        )
        return sample, idle_cpu.total / taken * 100, beaten.own_percent

    def end(self) -> None:
        self._pipe.send(None)
        self._process.join()


def heartbeats(
    ours: Side, theirs: Side, groups: int, pairs: int, seconds: float, say: Say, warm_ups: int = 1
) -> Comparison:
    assert seconds + HEARTBEAT_SECONDS < _SILENCE_SECONDS_MAX, "the other side's members may not be silent for longer"
    comparison = Comparison(
        "heartbeats",
        f"{groups:,} groups × {MEMBERS_EACH} members, a heartbeat every 3 s: CPU in percent of one core",
        "%",
        "≤ 10 %",
        "heartbeat",
    )
    sides = (ours, theirs)
    began = time.perf_counter()
    # Both form at once: mostly they wait, for Kafka's `group.initial.rebalance.delay.ms` among others.
    beating = [_BeatingSide(side, groups) for side in sides]
    for members in beating:
        members.wait()
    say(f"  {groups:,} groups of each side formed in {time.perf_counter() - began:.1f} s")
    idle_percent: list[list[float]] = [[], []]

    def sample(index: int) -> Sample:
        taken, idle, own = beating[index].sample(seconds, sides[1 - index])
        idle_percent[1 - index].append(idle)
        comparison.client_percent = max(comparison.client_percent, own)
        return taken

    in_turn(comparison, pairs, lambda: sample(0), lambda: sample(1), say, warm_ups)
    for samples, idles in zip((comparison.ours, comparison.theirs), idle_percent, strict=True):
        for each in samples:
            each.idle_percent = statistics.median(idles)
    for members in beating:
        members.end()
    return comparison
