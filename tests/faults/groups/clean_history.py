"""Histories of a group as a faultless cluster leaves them, with members that die, sleep through rebalances, and lose
answers: what the checker must call clean, and what anomalies are planted in."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.faults.groups.history import GroupEvent, What

_STEP_NS = 1_000_000


@dataclass(slots=True)
class SimulatedMember:
    name: str
    generation: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    """By partition that it owns, as far as it knows: the next offset."""
    uncommitted: dict[int, int] = field(default_factory=dict)
    sleeps: bool = False
    """It has not heard of the rebalance, and goes on."""


@dataclass(slots=True)
class CleanGroup:
    random: random.Random
    partitions: int
    events: list[GroupEvent] = field(default_factory=list)
    log: dict[int, list[str]] = field(default_factory=dict)
    members: list[SimulatedMember] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    _lives: int = 0
    _now_ns: int = 0

    def play(self, steps: int, members: int) -> None:
        self.log = {partition: [] for partition in range(self.partitions)}
        self.committed = dict.fromkeys(self.log, 0)
        self.members = [self._new_member() for _ in range(members)]
        self._rebalance()
        for _ in range(steps):
            match self.random.choices(("append", "read", "commit", "rebalance", "die", "wake"), (8, 10, 4, 1, 0.5, 1))[
                0
            ]:
                case "append":
                    log = self.log[partition := self.random.randrange(self.partitions)]
                    log.append(f"t|{partition}|{len(log)}")
                case "read":
                    self._read(self.random.choice(self.members))
                case "commit":
                    self._commit(self.random.choice(self.members))
                case "rebalance":
                    self._rebalance()
                case "die":
                    self._replace(self.random.randrange(members))
                case _:
                    self._wake(self.random.choice(self.members))
        self._drain()

    def _new_member(self) -> SimulatedMember:
        self._lives += 1
        return SimulatedMember(f"consumer-{self._lives}/1")

    def _add(self, what: What, member: SimulatedMember, **fields: object) -> None:
        self._now_ns += self.random.randint(1, _STEP_NS)
        self.events.append(GroupEvent(member.name, what, self._now_ns, **fields))  # type: ignore[arg-type]

    def _read(self, member: SimulatedMember) -> None:
        """One record, where it has one to read."""
        unread = [each for each, offset in member.positions.items() if offset < len(self.log[each])]
        if not unread:
            return
        partition = self.random.choice(unread)
        offset = member.positions[partition]
        self._add(What.READ, member, partition=partition, offset=offset, value=self.log[partition][offset])
        member.positions[partition] = member.uncommitted[partition] = offset + 1

    def _commit(self, member: SimulatedMember) -> None:
        """Most are done; of some the answer is lost, before or after; those of a generation gone by are refused."""
        if not member.uncommitted:
            return
        offsets, member.uncommitted = member.uncommitted, {}
        self._add(What.COMMIT, member, offsets=offsets)
        if member.generation != self.generation:
            self._add(What.NOT_COMMITTED, member, offsets=offsets, error="ILLEGAL_GENERATION")
            return
        is_done, is_reported = self.random.choices(((True, True), (True, False), (False, False)), (8, 1, 1))[0]
        if is_done:
            self.committed |= offsets
        if is_reported:
            self._add(What.COMMITTED, member, offsets=offsets)
        else:
            self._add(What.NOT_COMMITTED, member, offsets=offsets, error="REQUEST_TIMED_OUT")

    def _rebalance(self) -> None:
        """Some members commit and give back what they own, some sleep through it; one at least takes part."""
        for member in self.members:
            member.sleeps = member.sleeps or (bool(member.positions) and self.random.random() < 0.2)
        if all(member.sleeps for member in self.members):
            self.members[0].sleeps = False
        awake = [member for member in self.members if not member.sleeps]
        for member in awake:
            self._give_back(member)
        self.generation += 1
        owned: dict[int, list[int]] = {index: [] for index in range(len(awake))}
        for partition in self.log:
            owned[self.random.randrange(len(awake))].append(partition)
        for index, member in enumerate(awake):
            member.generation = self.generation
            self._add(What.ASSIGNED, member, generation=self.generation, partitions=owned[index])
            member.positions = {partition: self.committed[partition] for partition in owned[index]}

    def _give_back(self, member: SimulatedMember) -> None:
        if member.positions:
            if self.random.random() < 0.7:
                self._commit(member)
            self._add(What.REVOKED, member, partitions=sorted(member.positions))
        member.positions, member.uncommitted = {}, {}

    def _wake(self, member: SimulatedMember) -> None:
        """It hears that it has lost everything."""
        if member.sleeps:
            self._add(What.REVOKED, member, partitions=sorted(member.positions))
            member.positions, member.uncommitted, member.sleeps = {}, {}, False

    def _replace(self, index: int) -> None:
        """It dies without a word, and the group finds out."""
        self.members[index] = self._new_member()
        self._rebalance()

    def _drain(self) -> None:
        for member in self.members:
            self._wake(member)
        self._rebalance()
        while any(self.committed[each] < len(log) for each, log in self.log.items()):
            for member in self.members:
                self._read(member)
                self._commit(member)
                if self.random.random() < 0.02:
                    self._rebalance()


def clean_group(seed: int, steps: int, partitions: int, members: int) -> CleanGroup:
    group = CleanGroup(random.Random(seed), partitions)
    group.play(steps, members)
    return group
