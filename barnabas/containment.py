"""Unexpected exceptions: how far each one reaches, and what is reported of it.

An exception that nothing expects is a fault of Barnabas. How much it may cost is decided where it is caught, at a
`Place`, by what it may have left half-changed: nothing but the request itself, a partition's state, or what the whole
process relies on. Each service declares its places in one table; docs/correctness.md shows it.

Cores write no log. They note what they have contained in a `Containment`, whose host takes it in each turn.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from barnabas.metrics.containment_families import CONTAINED_EXCEPTIONS
from barnabas.metrics.family import Sample

REPORTS_MAX: Final = 16
"""Exceptions of one turn that are described; more are only counted."""
SUMMARY_CHARS_MAX: Final = 300
TRACEBACK_CHARS_MAX: Final = 8_000
"""An exception's text may contain what a client has sent."""


class Scope(Enum):
    """What ends when an unexpected exception is caught at a place."""

    REQUEST = "request"
    """That request, with an error for its caller."""
    STREAM = "stream"
    """That stream or connection; the peer opens another one."""
    PARTITION = "partition"
    """This replica of the partition goes offline, or its coordinator loads it again."""
    DUTY = "duty"
    """One pass of periodic work; the next one comes at its time."""
    PROCESS = "process"
    """The process, at once; what started it starts it again."""


class Uncontained(BaseException):
    """An exception was raised while another one was contained: no guard may catch it, and the process ends."""


class Containing:
    """A block that contains an exception, or gives back what all share: one that is raised in it is Uncontained. A
    guard further out may end less than is in doubt then.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise Uncontained from error


CONTAINING: Final = Containing()


@dataclass(slots=True, frozen=True)
class Place:
    """Where unexpected exceptions are caught. `name` is `<service>.<place>`, and stays the same between versions."""

    name: str
    scope: Scope
    what: str
    """What is worked on there, for docs/correctness.md."""

    @property
    def service(self) -> str:
        return self.name.partition(".")[0]


class StateOwner(Protocol):
    """Of a state that may be half-changed when an unexpected exception is caught."""

    def state_in_doubt(self, place: Place, error: Exception) -> None: ...


class Guard:
    """A block that ends with the first exception in it, which leaves its owner's state in doubt; what is behind the
    block goes on. Raises Uncontained if that can't be noted.
    """

    __slots__ = ("_owner", "_place")

    def __init__(self, owner: StateOwner, place: Place) -> None:
        self._owner = owner
        self._place = place

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        with CONTAINING:
            self._owner.state_in_doubt(self._place, error)
        return True


@dataclass(slots=True, frozen=True)
class ContainedException:
    """What is reported of one, in the service's log and to its operators."""

    place: Place
    fields: Mapping[str, str | int]
    """What was worked on: the header of a request, a partition."""
    summary: str
    """The exception in one line."""
    traceback: str


class Containment:
    """The exceptions that a core has contained: all of them counted, some of each turn described."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.counts: dict[Place, int] = dict.fromkeys(places, 0)
        self.reports: list[ContainedException] = []
        """Not taken yet."""

    def contain(self, place: Place, error: Exception, fields: Mapping[str, str | int]) -> None:
        """Note an exception that was caught at `place`."""
        self.counts[place] += 1
        if len(self.reports) < REPORTS_MAX:
            self.reports.append(describe_exception(place, error, fields))

    def contain_fault(self, place: Place, traceback_text: str, fields: Mapping[str, str | int]) -> None:
        """Do the same for one that was raised in a worker, which has reported its traceback."""
        self.counts[place] += 1
        if len(self.reports) < REPORTS_MAX:
            text = shortened(traceback_text)
            summary = text.rstrip().rpartition("\n")[2][:SUMMARY_CHARS_MAX]
            self.reports.append(ContainedException(place, fields, summary, text))

    def take_reports(self) -> list[ContainedException]:
        """Return what was contained since the last call, or the first of it."""
        if not self.reports:
            return []
        reports, self.reports = self.reports, []
        return reports

    def counts_by_name(self) -> dict[str, int]:
        return {place.name: count for place, count in self.counts.items()}

    def samples(self) -> Iterator[Sample]:
        for place, count in self.counts.items():
            yield Sample(CONTAINED_EXCEPTIONS, (place.service, place.name), count)


def describe_exception(place: Place, error: BaseException, fields: Mapping[str, str | int]) -> ContainedException:
    return ContainedException(place, fields, summary_of(error), shortened("".join(traceback.format_exception(error))))


def shortened(text: str) -> str:
    """Return a traceback of a bounded length. Both ends matter: the first names what was being done, the last one the
    exception.
    """
    if len(text) <= TRACEBACK_CHARS_MAX:
        return text
    half = TRACEBACK_CHARS_MAX // 2
    return f"{text[:half]}\n  ...\n{text[-half:]}"


def summary_of(error: BaseException) -> str:
    """Return the exception in one line, of a bounded length."""
    # What is compiled sets no `__cause__`: `raise … from …` is a plain `raise` there.
    if not str(error) and error.__context__ is not None:
        return summary_of(error.__context__)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return " ".join(text[:SUMMARY_CHARS_MAX].split())
