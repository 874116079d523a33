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
from functools import cached_property, partial

from bench.accounting import CpuTime, cpu_time
from bench.groups.members import Committer, Group, Member, coordinators_of
from bench.groups.swarm import Swarm
from bench.sides import Side

MEMBERS = 100
HEARTBEAT_SECONDS = 3.0
"""`heartbeat.interval.ms` of Kafka's clients."""
COMMITTERS = 50

FORM_SECONDS_MAX = 240.0
_REBALANCE_SECONDS_MAX = 60.0
SETTLE_SECONDS = 0.2
"""What a broker puts off (flushing answers, compiling) is part of its cost."""


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
    system_cpu_us: float = 0.0
    """What of `cpu_us` was the kernel's."""
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
        self._cpu = cpu_time(side.sessions)
        self._began = time.perf_counter()

    def stop(self) -> tuple[float, CpuTime, float]:
        """Seconds that it took; CPU of the side; CPU seconds of this process."""
        seconds = time.perf_counter() - self._began
        own = time.process_time() - self._own
        time.sleep(SETTLE_SECONDS)
        return seconds, cpu_time(self._side.sessions).since(self._cpu), own


def in_turn(
    comparison: Comparison,
    pairs: int,
    ours: Callable[[], Sample],
    theirs: Callable[[], Sample],
    say: Say,
    warm_ups: int = 1,
) -> Comparison:
    """Each so often to warm up, then so many pairs."""
    for _ in range(warm_ups):
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
        swarm.run(lambda: self._group.is_whole_after(-1), FORM_SECONDS_MAX)
        self._beats = Beats(swarm, [member.heartbeat for member in self._members])

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
        return seconds, cpu.total


class Beats:
    """What clients do at a pace of their own, as heartbeats: each every so many seconds, at times of its own."""

    def __init__(
        self, swarm: Swarm, acts: Sequence[Callable[[], None]], every_seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        chance = random.Random(len(acts))
        self._swarm = swarm
        self._acts = list(acts)
        self._every_seconds = every_seconds
        self._phases = sorted(chance.uniform(0.0, every_seconds) for _ in acts)
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
        rounds, index = divmod(self._number, len(self._acts))
        run = self._run
        due = self._began + rounds * self._every_seconds + self._phases[index]

        def beat() -> None:
            if run == self._run:
                self._acts[index]()
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


# --- commits ----------------------------------------------------------------------------------------------------------


class CommittingGroups:
    """Groups of one member each on one side, every one on a connection of its own. They form while the swarm runs, and
    commit once `are_formed`.
    """

    def __init__(self, swarm: Swarm, side: Side, partitions: int) -> None:
        self._swarm = swarm
        self._side = side
        self._partitions = partitions
        self._groups = [Group(f"bench-commits-{partitions}-{number}") for number in range(COMMITTERS)]
        addresses = coordinators_of(side.bootstrap, [group.group_id for group in self._groups])
        self._connections = [swarm.connect(addresses[group.group_id]) for group in self._groups]
        joining = zip(self._connections, self._groups, strict=True)
        self._members = [Member(swarm, connection, group) for connection, group in joining]
        for member in self._members:
            member.join()

    @property
    def are_formed(self) -> bool:
        return all(group.is_whole_after(-1) for group in self._groups)

    @cached_property
    def _committers(self) -> list[Committer]:
        """Each commits as its member of the generation that has formed."""
        assert self.are_formed
        of_groups = zip(self._connections, self._groups, self._members, strict=True)
        return [Committer(*each, self._partitions) for each in of_groups]

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
        return Sample(
            commits / taken,
            cpu.total / commits * 1e6,
            commits,
            taken,
            system_cpu_us=cpu.system / commits * 1e6,
        )


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
    swarm.run(lambda: own.are_formed and other.are_formed, FORM_SECONDS_MAX)
    return in_turn(comparison, pairs, lambda: own.sample(seconds), lambda: other.sample(seconds), say)
