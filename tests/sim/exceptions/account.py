"""The account of what was thrown: each exception is reported once, with a scope that its place may have."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum

from tests.sim.exceptions.call_sites import Place
from tests.sim.process import Process
from tests.sim.scheduler import InjectedFault, InvariantViolation

_NUMBER = re.compile(r"injected fault (\d+)\b")


class Scope(IntEnum):
    """What an exception ends, from the narrowest to the widest."""

    REQUEST = 1
    DUTY = 2
    STREAM = 3
    PARTITION = 4
    PROCESS = 5


@dataclass(slots=True)
class Thrown:
    """`reports`: the scope of each, by the guard that reported it."""

    place: Place
    process: Process
    incarnation: int
    at_us: int
    reports: list[tuple[str, Scope]] = field(default_factory=list)
    is_in_another: bool = False
    """A report of an exception that was raised while this one was handled names both."""

    @property
    def is_excused(self) -> bool:
        """Its process has ended by something else, before it could report anything."""
        return not self.process.alive or self.process.incarnation != self.incarnation

    def __str__(self) -> str:
        return f"{self.place} in {self.process.name} at {self.at_us / 1_000_000:.6f} s"


@dataclass(slots=True, frozen=True)
class Ended:
    """Where an exception was thrown, and what it has ended; nothing, where something else ended its process first."""

    place: Place
    guard: str
    scope: Scope | None


class Account:
    def __init__(self) -> None:
        self.all: list[Thrown] = []

    def thrown(self, thrown: Thrown) -> InjectedFault:
        """Return the exception to raise; its text has a number, by which it is found in reports."""
        self.all.append(thrown)
        return InjectedFault(f"injected fault {len(self.all)} at {thrown.place}", thrown.process)

    @property
    def hits(self) -> Counter[Place]:
        return Counter(each.place for each in self.all)

    def ended(self) -> list[Ended]:
        return [
            Ended(each.place, guard, scope)
            for each in self.all
            for guard, scope in (each.reports or [("", None)])  # type: ignore[list-item]
        ]

    def reported(self, process: Process, guard: str, scope: Scope, text: str) -> Thrown:
        """A process reports an exception that it has contained, or ends by it; `text` is that of the exception."""
        numbers = {int(number) for number in _NUMBER.findall(text)}
        if not numbers:
            raise InvariantViolation(f"{process.name} has contained what nothing has thrown, at {guard}: {text}")
        thrown = self.all[max(numbers) - 1]
        for number in numbers:
            self.all[number - 1].is_in_another |= number != max(numbers)
        thrown.reports.append((guard, scope))
        if len(thrown.reports) > 1:
            raise InvariantViolation(f"{thrown} is reported more than once: {thrown.reports}")
        return thrown

    def check_that_all_are_reported(self) -> None:
        for thrown in self.all:
            if not (thrown.reports or thrown.is_in_another or thrown.is_excused):
                raise InvariantViolation(f"{thrown} was swallowed: nothing has reported it")
