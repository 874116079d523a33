"""Is what the members of a group saw what at-least-once allows? A pure function of their history and of the log.

A member begins a partition where it was committed, reads on from there without gaps, and no other member owns it in the
same generation. So a record is read twice only where it lies beyond the last commit of the one who read it before; and
none is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.faults.checker.silences import Silences
from tests.faults.groups.history import GroupEvent, What

EXAMPLES_MAX = 5
"""Of each kind, as text; the count is whole."""

Log = Mapping[int, Sequence[str]]
"""By partition: the values of all records, from offset 0 on."""


class Wrong(StrEnum):
    """What must never happen."""

    SKIPPED = "skipped"
    """A record in the log that no member was ever given."""
    JUMPED = "jumped"
    """A position that no member had committed or reached."""
    REPEATED = "repeated"
    """A record that was read again although an offset behind it had been committed before its partition was assigned,
    or by the same member within one assignment."""
    TWO_OWNERS = "two owners"
    """Of a partition in one generation."""
    OLD_GENERATION = "old generation"
    """A member was given a generation older than one that it had had, or had a commit accepted after a later one had
    been assigned to others."""
    UNOWNED = "unowned"
    """A member was given a record of a partition that it did not own."""
    DIVERGED = "diverged"
    """A member was given another record than is in the log."""


@dataclass(slots=True)
class GroupFigures:
    lives: int = 0
    """Of members."""
    generations: int = 0
    """Generations in which a member was assigned a partition."""
    reads: int = 0
    records: int = 0
    """In the log."""
    again: int = 0
    """Read again where at-least-once allows it: not committed by the one who read it before."""
    commits: int = 0
    """Accepted, by partition."""
    commits_failed: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    unknown_generations: int = 0
    """Assignments whose generation the client had already dropped when it reported them."""


@dataclass(slots=True)
class GroupVerdict:
    counts: dict[Wrong, int] = field(default_factory=lambda: dict.fromkeys(Wrong, 0))
    examples: dict[Wrong, list[str]] = field(default_factory=dict)
    figures: GroupFigures = field(default_factory=GroupFigures)
    silences: Silences = field(default_factory=Silences)
    """When records were read, by partition."""

    @property
    def is_clean(self) -> bool:
        return not any(self.counts.values())

    def add(self, wrong: Wrong, text: str, count: int = 1) -> None:
        self.counts[wrong] += count
        examples = self.examples.setdefault(wrong, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(text)

    def __str__(self) -> str:
        figures = self.figures
        lines = [
            ", ".join(f"{wrong} {count}" for wrong, count in self.counts.items()),
            f"{figures.records} records in the log, read {figures.reads} times by {figures.lives} lives of members in "
            f"{figures.generations} generations; {figures.again} of them again, beyond the last commit; "
            f"{figures.commits} commits",
        ]
        if figures.unknown_generations:
            lines.append(f"assignments of a generation that was over by then: {figures.unknown_generations}")
        for name, counter in (("commits that failed", figures.commits_failed), ("errors", figures.errors)):
            if counter:
                lines.append(f"{name}: " + ", ".join(f"{error} {count}" for error, count in counter.most_common()))
        lines += [f"{wrong}: {text}" for wrong, texts in self.examples.items() for text in texts]
        return "\n".join(lines)


def check_group(events: Sequence[GroupEvent], log: Log) -> GroupVerdict:
    """`events` in the order in which they happened."""
    checker = _Checker(log)
    for event in events:
        checker.feed(event)
    return checker.finish()


@dataclass(slots=True)
class _Ownership:
    """Of one partition by one member, from an assignment on."""

    committed: int
    """What had certainly been committed when it began."""
    due: int | None = None
    """The next offset; None until there was a first."""


@dataclass(slots=True)
class _Partition:
    committed: int = 0
    """The highest offset for which a member got that answer."""
    asked: int = 0
    """The highest that any member has asked to commit."""
    read: set[int] = field(default_factory=set)


class _Checker:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._verdict = GroupVerdict()
        self._partitions: dict[int, _Partition] = {partition: _Partition() for partition in log}
        self._owned: dict[str, dict[int, _Ownership]] = {}
        self._generations: dict[str, int] = {}
        """The newest of each member's assignments."""
        self._asked_in: dict[str, int] = {}
        """The newest generation that any member had when this member last asked to commit."""
        self._owners: dict[tuple[int, int], str] = {}
        """By generation and partition."""
        self._newest_generation = -1

    def feed(self, event: GroupEvent) -> None:
        match event.what:
            case What.ASSIGNED:
                self._assigned(event)
            case What.REVOKED:
                self._owned[event.consumer] = {}
            case What.READ:
                self._read(event)
            case What.COMMIT:
                self._asked_in[event.consumer] = self._newest_generation
                for partition, offset in _offsets(event):
                    at = self._partitions[partition]
                    at.asked = max(at.asked, offset)
            case What.COMMITTED:
                self._committed(event)
            case What.NOT_COMMITTED:
                self._verdict.figures.commits_failed[event.error or ""] += 1
            case What.ERROR:
                self._verdict.figures.errors[event.error or ""] += 1

    def _assigned(self, event: GroupEvent) -> None:
        partitions, generation = event.partitions, event.generation
        assert partitions is not None
        assert generation is not None
        consumer = event.consumer
        self._owned[consumer] = {each: _Ownership(self._partitions[each].committed) for each in partitions}
        if generation < 0:
            self._verdict.figures.unknown_generations += 1
            return
        if generation < self._generations.get(consumer, -1):
            self._verdict.add(
                Wrong.OLD_GENERATION,
                f"{consumer} was given generation {generation} after {self._generations[consumer]}",
            )
        self._generations[consumer] = generation
        self._newest_generation = max(self._newest_generation, generation)
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), consumer)
            if owner != consumer:
                self._verdict.add(
                    Wrong.TWO_OWNERS, f"partition {partition} in generation {generation}: {owner} and {consumer}"
                )

    def _read(self, event: GroupEvent) -> None:
        partition, offset = event.partition, event.offset
        assert partition is not None
        assert offset is not None
        self._verdict.figures.reads += 1
        self._verdict.silences.acknowledged_ns.setdefault(partition, []).append(event.ts)
        where = f"partition {partition} offset {offset}"
        log, at = self._log[partition], self._partitions[partition]
        if not 0 <= offset < len(log) or log[offset] != event.value:
            self._verdict.add(Wrong.DIVERGED, f"{where}: {event.consumer} was given {event.value!r}")
        ownership = self._owned.get(event.consumer, {}).get(partition)
        if ownership is None:
            self._verdict.add(Wrong.UNOWNED, f"{where}: {event.consumer}")
            at.read.add(offset)
            return
        self._check_position(event.consumer, where, offset, at, ownership)
        is_within = ownership.due is not None and offset < ownership.due
        if offset in at.read and not is_within and offset >= ownership.committed:
            self._verdict.figures.again += 1
        elif offset in at.read:
            self._verdict.add(
                Wrong.REPEATED, f"{where}: {event.consumer}, with {ownership.committed} committed, due {ownership.due}"
            )
        at.read.add(offset)
        ownership.due = offset + 1

    def _check_position(self, consumer: str, where: str, offset: int, at: _Partition, ownership: _Ownership) -> None:
        furthest = at.asked if ownership.due is None else ownership.due
        if offset > furthest:
            self._verdict.add(Wrong.JUMPED, f"{where}: {consumer}, where {furthest} was the furthest it could be")

    def _committed(self, event: GroupEvent) -> None:
        consumer = event.consumer
        generation, asked_in = self._generations.get(consumer, -1), self._asked_in[consumer]
        if 0 <= generation < asked_in:
            self._verdict.add(Wrong.OLD_GENERATION, f"a commit of {consumer} in {generation}, asked for in {asked_in}")
        for partition, offset in _offsets(event):
            self._verdict.figures.commits += 1
            at = self._partitions[partition]
            at.committed = max(at.committed, offset)

    def finish(self) -> GroupVerdict:
        verdict, figures = self._verdict, self._verdict.figures
        for partition, log in self._log.items():
            figures.records += len(log)
            for offset in range(len(log)):
                if offset not in self._partitions[partition].read:
                    verdict.add(Wrong.SKIPPED, f"partition {partition} offset {offset}")
        figures.lives = len(self._owned)
        figures.generations = len({generation for generation, _ in self._owners})
        return verdict


def _offsets(event: GroupEvent) -> list[tuple[int, int]]:
    assert event.offsets is not None
    return list(event.offsets.items())
