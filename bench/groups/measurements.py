"""What is measured: the same on each side, in turn, by connections that stay.

Both sides run all the time, and both have their groups: while one is measured, the members of the other are silent for
less than their session timeout.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from bench.accounting import cpu_seconds
from bench.groups.members import SESSION_TIMEOUT_MS, Committer, Group, Member, coordinators_of
from bench.groups.swarm import Swarm
from bench.sides import Side

MEMBERS = 100
HEARTBEAT_SECONDS = 3.0
"""`heartbeat.interval.ms` of Kafka's clients."""
GROUPS, MEMBERS_EACH = 1000, 10
COMMITTERS = 50

_FORM_SECONDS_MAX = 240.0
_REBALANCE_SECONDS_MAX = 60.0
_FORMED_AT_ONCE = 50
"""Groups whose members join at the same time, so that making them is no flood of its own."""
_SETTLE_SECONDS = 0.2
"""What a broker puts off (flushing answers, compiling) is part of its cost."""
_SILENCE_SECONDS_MAX = SESSION_TIMEOUT_MS / 1000 / 2


Say = Callable[[str], None]


@dataclass(slots=True)
class Sample:
    """One side, once."""

    value: float
    """In the unit of its comparison."""
    cpu_us: float
    """Of all processes of the side, for each rebalance, heartbeat or commit."""
    operations: int
    seconds: float
    p99_ms: float = 0.0
    """Of the operations; 0 where they are not timed one by one."""
    idle_percent: float = 0.0
    """Of one core: what the side used of it while the other one was measured; 0 where that was not taken."""


@dataclass(slots=True)
class Comparison:
    name: str
    title: str
    unit: str
    goal: str
    cpu_of: str
    """What `Sample.cpu_us` is for."""
    ours: list[Sample] = field(default_factory=list)
    theirs: list[Sample] = field(default_factory=list)
    """Pair by pair."""
    client_percent: float = 0.0
    """Of one core: what this process used, at most."""

    @property
    def ratios(self) -> list[float]:
        return [ours.value / theirs.value for ours, theirs in zip(self.ours, self.theirs, strict=True)]


class Meter:
    """CPU time of a side, and of this process, over a piece of work."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._own = time.process_time()
        self._cpu = cpu_seconds(side.sessions)
        self._began = time.perf_counter()

    def stop(self) -> tuple[float, float, float]:
        """Seconds that it took; CPU seconds of the side, and of this process."""
        seconds = time.perf_counter() - self._began
        own = time.process_time() - self._own
        time.sleep(_SETTLE_SECONDS)
        return seconds, cpu_seconds(self._side.sessions) - self._cpu, own


def in_turn(
    comparison: Comparison,
    pairs: int,
    ours: Callable[[], Sample],
    theirs: Callable[[], Sample],
    say: Say,
) -> Comparison:
    """Each once to warm up, then so many pairs."""
    ours()
    theirs()
    for number in range(pairs):
        comparison.ours.append(ours())
        comparison.theirs.append(theirs())
        own, other = comparison.ours[-1], comparison.theirs[-1]
        say(
            f"  {comparison.name} {number + 1}/{pairs}: {own.value:,.1f} and {other.value:,.1f} {comparison.unit}, "
            f"{own.cpu_us:,.0f} and {other.cpu_us:,.0f} µs a {comparison.cpu_of}"
        )
    return comparison


# --- rebalances -------------------------------------------------------------------------------------------------------


class RebalancedGroup:
    """One group of a hundred on one side, and a newcomer that joins and leaves."""

    def __init__(self, swarm: Swarm, side: Side) -> None:
        self._swarm = swarm
        self._side = side
        self._group = Group("bench-rebalance")
        address = coordinators_of(side.bootstrap, [self._group.group_id])[self._group.group_id]
        self._members = [Member(swarm, swarm.connect(address), self._group) for _ in range(MEMBERS)]
        self._newcomer = Member(swarm, swarm.connect(address), self._group)
        for member in self._members:
            member.join()
        swarm.run(lambda: self._group.is_whole_after(-1), _FORM_SECONDS_MAX)
        self._beats = Beats(swarm, self._members)

    def rounds(self, count: int, newcomer_joins: bool, every_3_seconds: bool) -> Sample:
        """So many joins (or leaves) of the newcomer, each followed by its leave (or join), which is not measured."""
        times, cpu = [], 0.0
        for _ in range(count):
            if newcomer_joins:
                seconds, used = self._rebalance(self._newcomer.join, every_3_seconds)
                self._rebalance(self._newcomer.leave, False)
            else:
                self._rebalance(self._newcomer.join, False)
                seconds, used = self._rebalance(self._newcomer.leave, every_3_seconds)
            times.append(seconds)
            cpu += used
        return Sample(statistics.median(times) * 1e3, cpu / count * 1e6, count, sum(times), max(times) * 1e3)

    def _rebalance(self, begin: Callable[[], None], every_3_seconds: bool) -> tuple[float, float]:
        """Seconds until all members have their new assignment; CPU seconds of the side."""
        before = self._group.generation_id
        meter = Meter(self._side)
        begin()
        if every_3_seconds:
            self._beats.begin()
        else:
            self._members[0].ask_on(self._members[1:])
        self._swarm.run(lambda: self._group.is_whole_after(before), _REBALANCE_SECONDS_MAX)
        seconds, cpu, _ = meter.stop()
        self._beats.end()
        self._group.check()
        return seconds, cpu


class Beats:
    """The members' own heartbeats: each every three seconds, at times of its own."""

    def __init__(self, swarm: Swarm, members: Sequence[Member]) -> None:
        chance = random.Random(len(members))
        self._swarm = swarm
        self._members = list(members)
        self._phases = sorted(chance.uniform(0.0, HEARTBEAT_SECONDS) for _ in members)
        self._began = 0.0
        self._number = 0
        self._run = 0
        """Counts `begin` and `end`: what was due in an earlier run is not done."""

    def begin(self) -> None:
        self._began, self._number = time.perf_counter(), 0
        self._run += 1
        self._schedule()

    def end(self) -> None:
        self._run += 1

    def _schedule(self) -> None:
        rounds, index = divmod(self._number, len(self._members))
        run = self._run
        due = self._began + rounds * HEARTBEAT_SECONDS + self._phases[index]

        def beat() -> None:
            if run == self._run:
                self._members[index].heartbeat()
                self._number += 1
                self._schedule()

        self._swarm.at(due, beat)


def rebalances(swarm: Swarm, ours: Side, theirs: Side, pairs: int, rounds: int, say: Say) -> list[Comparison]:
    """`rounds` of each sample; of those at the members' own pace only one, which takes as long as that pace says."""
    groups = [RebalancedGroup(swarm, side) for side in (ours, theirs)]
    results = []
    for joins, paced in ((True, False), (False, False), (True, True)):
        what = "a 101st member joins" if joins else "one of 101 members leaves"
        how = "heartbeats every 3 s" if paced else "the others hear of it at once"
        comparison = Comparison(
            f"rebalance-{'join' if joins else 'leave'}{'-paced' if paced else ''}",
            f"rebalance of {MEMBERS} members, {what}, {how}",
            "ms",
            "≤ 1.0",
            "rebalance",
        )
        count = 1 if paced else rounds
        own, other = (partial(group.rounds, count, joins, paced) for group in groups)
        results.append(in_turn(comparison, pairs, own, other, say))
    return results


# --- heartbeats -------------------------------------------------------------------------------------------------------


class BeatingGroups:
    """A thousand groups of ten on one side."""

    def __init__(self, swarm: Swarm, side: Side, groups: int) -> None:
        self._swarm = swarm
        self._side = side
        named = [Group(f"bench-heartbeats-{number}") for number in range(groups)]
        addresses = coordinators_of(side.bootstrap, [group.group_id for group in named])
        self._members: list[Member] = []
        for begin in range(0, groups, _FORMED_AT_ONCE):
            formed = named[begin : begin + _FORMED_AT_ONCE]
            for group in formed:
                for _ in range(MEMBERS_EACH):
                    member = Member(swarm, swarm.connect(addresses[group.group_id]), group)
                    self._members.append(member)
                    member.join()
            swarm.run_for(_SETTLE_SECONDS)
        swarm.run(lambda: all(group.is_whole_after(-1) for group in named), _FORM_SECONDS_MAX)
        random.Random(1).shuffle(self._members)
        self._beats = Beats(swarm, self._members)

    def sample(self, seconds: float, idle: Side) -> tuple[Sample, float, float]:
        """The sample; what `idle` used of a core in that time, and this process, in percent."""
        self._beats.begin()
        self._swarm.run_for(HEARTBEAT_SECONDS)
        for member in self._members:
            member.heartbeats = 0
            member.heartbeat_seconds.clear()
        idle_meter, meter = Meter(idle), Meter(self._side)
        self._swarm.run_for(seconds)
        taken, cpu, own = meter.stop()
        _, idle_cpu, _ = idle_meter.stop()
        self._beats.end()
        self._swarm.run_for(_SETTLE_SECONDS)
        answered = sum(member.heartbeats for member in self._members)
        times = sorted(each for member in self._members for each in member.heartbeat_seconds)
        assert all(member.is_stable for member in self._members), "nobody was told of a rebalance"
        sample = Sample(cpu / taken * 100, cpu / answered * 1e6, answered, taken, times[len(times) * 99 // 100] * 1e3)
        return sample, idle_cpu / taken * 100, own / taken * 100


def heartbeats(swarm: Swarm, ours: Side, theirs: Side, groups: int, pairs: int, seconds: float, say: Say) -> Comparison:
    assert seconds + HEARTBEAT_SECONDS < _SILENCE_SECONDS_MAX, "the other side's members may not be silent for longer"
    comparison = Comparison(
        "heartbeats",
        f"{groups:,} groups × {MEMBERS_EACH} members, a heartbeat every 3 s: CPU in percent of one core",
        "%",
        "≤ 10 %",
        "heartbeat",
    )
    sides = (ours, theirs)
    beating = [_formed(BeatingGroups, swarm, side, groups, say) for side in sides]
    idle_percent: list[list[float]] = [[], []]

    def sample(index: int) -> Sample:
        taken, idle, own = beating[index].sample(seconds, sides[1 - index])
        idle_percent[1 - index].append(idle)
        comparison.client_percent = max(comparison.client_percent, own)
        return taken

    in_turn(comparison, pairs, lambda: sample(0), lambda: sample(1), say)
    for samples, idles in zip((comparison.ours, comparison.theirs), idle_percent, strict=True):
        for each in samples:
            each.idle_percent = statistics.median(idles)
    return comparison


def _formed(make: type[BeatingGroups], swarm: Swarm, side: Side, groups: int, say: Say) -> BeatingGroups:
    began = time.perf_counter()
    formed = make(swarm, side, groups)
    say(f"  {side.name}: {groups:,} groups formed in {time.perf_counter() - began:.1f} s")
    return formed


# --- commits ----------------------------------------------------------------------------------------------------------


class CommittingGroups:
    """Groups of one member each on one side, every one on a connection of its own."""

    def __init__(self, swarm: Swarm, side: Side, partitions: int) -> None:
        self._swarm = swarm
        self._side = side
        groups = [Group(f"bench-commits-{partitions}-{number}") for number in range(COMMITTERS)]
        addresses = coordinators_of(side.bootstrap, [group.group_id for group in groups])
        connections = [swarm.connect(addresses[group.group_id]) for group in groups]
        members = [Member(swarm, connection, group) for connection, group in zip(connections, groups, strict=True)]
        for member in members:
            member.join()
        swarm.run(lambda: all(group.is_whole_after(-1) for group in groups), _FORM_SECONDS_MAX)
        self._committers = [Committer(*each, partitions) for each in zip(connections, groups, members, strict=True)]

    def sample(self, seconds: float) -> Sample:
        for committer in self._committers:
            committer.commits = 0
        meter = Meter(self._side)
        for committer in self._committers:
            committer.begin()
        self._swarm.run_for(seconds)
        for committer in self._committers:
            committer.end()
        self._swarm.run(lambda: all(committer.is_idle for committer in self._committers), _REBALANCE_SECONDS_MAX)
        taken, cpu, _ = meter.stop()
        commits = sum(committer.commits for committer in self._committers)
        return Sample(commits / taken, cpu / commits * 1e6, commits, taken)


def commits(
    swarm: Swarm, ours: Side, theirs: Side, partitions: int, pairs: int, seconds: float, say: Say
) -> Comparison:
    of = "one partition" if partitions == 1 else f"{partitions} partitions"
    comparison = Comparison(
        f"commits-{partitions}",
        f"OffsetCommit of {of}, {COMMITTERS} connections with one at a time each",
        "commits/s",
        "≥ 1.0",
        "commit",
    )
    own, other = (CommittingGroups(swarm, side, partitions) for side in (ours, theirs))
    return in_turn(comparison, pairs, lambda: own.sample(seconds), lambda: other.sample(seconds), say)
