"""From the history of transactional clients to a verdict. Linear in the events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from tests.faults.findings import Findings
from tests.faults.history import Type
from tests.faults.transactions.history import ALL, IN, OUT, Event


class Kind(StrEnum):
    """What must never happen."""

    LOST = "lost"
    """An acknowledged record of the input that was not copied, or a committed transaction that is nowhere."""
    DOUBLED = "doubled"
    """A value at two offsets of one partition, or at two partitions of the output."""
    DIRTY = "dirty"
    """Read by a read_committed consumer, though its transaction was aborted, or is not in the log at the end."""
    PARTIAL = "partial"
    """A transaction with its record in some partitions and not in others."""
    REORDERED = "reordered"
    """The records of one writer, or the copies of one partition, in another order than written."""
    DIVERGED = "diverged"
    """An offset with two values, for two readers or at two times."""
    UNKNOWN = "unknown"
    """A value that was never written."""
    HANGING = "hanging"
    """A transaction that never ended, although everything runs and its timeout is over."""
    ZOMBIE = "zombie"
    """A producer that could commit after its successor had fenced it."""


@dataclass(slots=True)
class Verdict(Findings[Kind]):
    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    fed: int = 0
    copied: int = 0
    """Records of the output."""
    outcomes: Counter[Type] = field(default_factory=Counter)
    """Of the transactions that write to all partitions: committed (ok), aborted (fail), unknown (info)."""
    fenced: int = 0
    """Producers that tried to commit after their successors had begun, and could not."""
    committed_ns: list[int] = field(default_factory=list)
    """When transactions were committed, ascending."""

    @property
    def committed(self) -> int:
        return self.outcomes[Type.OK]

    @property
    def aborted(self) -> int:
        return self.outcomes[Type.FAIL]

    @property
    def unknown(self) -> int:
        return self.outcomes[Type.INFO]

    def __str__(self) -> str:
        figures = (
            f"{self.fed} records fed, {self.copied} copied; transactions over all partitions: "
            f"{self.committed} committed, {self.aborted} aborted, {self.unknown} of unknown outcome; "
            f"{self.fenced} producers fenced"
        )
        return "\n".join([self.summary, figures, *self.details])


def check(events: Iterable[Event], partitions: int) -> Verdict:
    """Judge all events of a run, in the order of their times."""
    return _Check(partitions).run(events)


Place = tuple[str, int]
"""Topic and partition."""


class _Check:
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._verdict = Verdict()
        self._fed: set[str] = set()
        self._outcome: dict[str, Type] = {}
        """Of each transaction over all partitions."""
        self._values: dict[Place, dict[int, str]] = defaultdict(dict)
        """What any reader has read, by offset."""
        self._final: dict[Place, set[str]] = defaultdict(set)
        """The clients that read it to its end."""
        self._read_by: dict[tuple[str, Place], dict[int, str]] = defaultdict(dict)

    def run(self, events: Iterable[Event]) -> Verdict:
        for event in events:
            self._take(event)
        verdict = self._verdict
        verdict.fed = len(self._fed)
        logs = {
            (topic, partition): self._log_at_the_end((topic, partition))
            for topic in (IN, OUT, ALL)
            for partition in range(self._partitions)
        }
        if not verdict.incomplete:
            self._check_copies(logs)
            self._check_transactions({each: logs[ALL, each] for each in range(self._partitions)})
        return verdict

    def _take(self, event: Event) -> None:
        verdict = self._verdict
        match event.f:
            case "fed":
                self._fed.add(event.value)
            case "transaction":
                self._outcome[event.value] = Type.INFO if event.type is Type.INVOKE else event.type
                if event.type is Type.OK:
                    verdict.committed_ns.append(event.ts)
            case "copied":
                verdict.committed_ns.append(event.ts)
            case "read":
                self._read(event)
            case "final":
                if event.type is Type.OK:
                    self._final[event.topic, event.partition].add(event.client)
                else:
                    verdict.incomplete.append(f"{event.client}, {event.topic}-{event.partition}: {event.error}")
            case "hanging":
                verdict.add(Kind.HANGING, f"{event.topic}-{event.partition}: {event.error}")
            case "zombie" if event.type is Type.OK:
                verdict.add(Kind.ZOMBIE, event.value)
            case "zombie":
                verdict.fenced += 1
            case "fault":
                pass
            case _:
                raise ValueError(f"an event of no kind: {event}")

    def _read(self, event: Event) -> None:
        place = (event.topic, event.partition)
        known, own = self._values[place], self._read_by[event.client, place]
        last_offset = -1
        for offset, value in event.reads:
            if offset <= last_offset:
                self._verdict.add(Kind.REORDERED, f"{event.client} read offset {offset} of {place} after {last_offset}")
            last_offset = offset
            before = known.setdefault(offset, value)
            if before != value:
                self._verdict.add(Kind.DIVERGED, f"offset {offset} of {place} is {before!r} and {value!r}")
            own[offset] = value

    def _log_at_the_end(self, place: Place) -> dict[int, str]:
        """Return the log by ascending offset, as those read it who read it to its end; report what else was read."""
        finals = sorted(self._final[place])
        if not finals:
            self._verdict.incomplete.append(f"{place[0]}-{place[1]} was not read to its end")
            return {}
        log = self._read_by[finals[0], place]
        for other in finals[1:]:
            if self._read_by[other, place].keys() != log.keys():
                differ = sorted(self._read_by[other, place].keys() ^ log.keys())
                self._verdict.add(Kind.DIVERGED, f"{finals[0]} and {other} differ on offsets {differ[:5]} of {place}")
        for offset in sorted(self._values[place].keys() - log.keys()):
            value = self._values[place][offset]
            self._verdict.add(Kind.DIRTY, f"{value!r} was read at offset {offset} of {place}, and is not there")
        return dict(sorted(log.items()))

    def _check_copies(self, logs: dict[Place, dict[int, str]]) -> None:
        """Each record of the input is in the output once, in the same partition and in the same order."""
        verdict = self._verdict
        input_values: set[str] = set()
        for partition in range(self._partitions):
            in_order = {value: index for index, value in enumerate(logs[IN, partition].values())}
            input_values |= in_order.keys()
            copies = list(logs[OUT, partition].values())
            verdict.copied += len(copies)
            for value, times in Counter(copies).items():
                if value not in in_order:
                    verdict.add(Kind.UNKNOWN, f"{value!r} in partition {partition} of the output")
                elif times > 1:
                    verdict.add(Kind.DOUBLED, f"{value!r} is {times} times in partition {partition} of the output")
            for earlier, later in pairwise(value for value in dict.fromkeys(copies) if value in in_order):
                if in_order[earlier] > in_order[later]:
                    verdict.add(Kind.REORDERED, f"{later!r} was copied after {earlier!r}")
            for value in in_order.keys() - set(copies):
                verdict.add(Kind.LOST, f"{value!r} was not copied")
        for value in self._fed - input_values:
            verdict.add(Kind.LOST, f"{value!r} was acknowledged, and is not in the input")

    def _check_transactions(self, logs: dict[int, dict[int, str]]) -> None:
        """A transaction over all partitions is in each of them once, or in none."""
        verdict = self._verdict
        found: dict[str, Counter[int]] = {}
        for partition, log in logs.items():
            last_of: dict[str, tuple[int, int]] = {}
            for value in log.values():
                found.setdefault(value, Counter())[partition] += 1
                if value not in self._outcome:
                    continue  # no writer's: reported below
                writer, life, number = value.split("|")
                position = (int(life), int(number))
                if position < last_of.get(writer, position):
                    verdict.add(Kind.REORDERED, f"{value!r} in partition {partition} after {last_of[writer]}")
                last_of[writer] = position
        for value, places in found.items():
            outcome = self._outcome.get(value)
            if outcome is None:
                verdict.add(Kind.UNKNOWN, f"{value!r} in {dict(places)}")
            elif outcome is Type.FAIL:
                verdict.add(Kind.DIRTY, f"{value!r} was aborted, and is in {dict(places)}")
            if max(places.values()) > 1:
                verdict.add(Kind.DOUBLED, f"{value!r} is in {dict(places)}")
            if len(places) < self._partitions:
                verdict.add(Kind.PARTIAL, f"{value!r} is in {dict(places)} of {self._partitions}")
        for value, outcome in self._outcome.items():
            verdict.outcomes[outcome] += 1
            if outcome is Type.OK and value not in found:
                verdict.add(Kind.LOST, f"{value!r} was committed, and is nowhere")
