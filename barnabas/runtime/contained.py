"""Unexpected exceptions outside of the cores: where the code that services share catches them, and what is reported.

Each costs a line in the log, as far as its rate limit lets it through, is counted by its place, and is a condition of
the member for an hour.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from barnabas.containment import ContainedException, Place, Scope, describe_exception
from barnabas.metrics.conditions import Condition
from barnabas.metrics.containment_families import CONTAINED_EXCEPTIONS
from barnabas.metrics.family import Sample
from barnabas.metrics.recent_exceptions import RecentExceptions
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.logs import get_logger

EVENT: Final = "an unexpected exception was contained"
ENDS: Final = "an unexpected exception ends this process"
FAULT_EXIT_CODE: Final = 70
"""Of a process that an exception of its own has ended (EX_SOFTWARE)."""

LINK: Final = Place("runtime.link", Scope.STREAM, "a link to another service: the attempt to connect, or its end")
MESSAGE: Final = Place(
    "runtime.message",
    Scope.STREAM,
    "a message of another service, before and after its core, and what a stream does by time",
)
PROCESS_MESSAGE: Final = Place(
    "runtime.process_message", Scope.REQUEST, "a message between the processes of a service, which is lost"
)
PACKING: Final = Place("runtime.packing", Scope.STREAM, "packing a large message, and the writing of those behind it")
CALL: Final = Place("runtime.call", Scope.REQUEST, "a call of another service or of an operator, which gets UNKNOWN")
LANE: Final = Place("runtime.lane", Scope.STREAM, "the handshake of a lane; the stream stays on gRPC")
SCRAPE: Final = Place("runtime.scrape", Scope.REQUEST, "a scrape of the metrics, or one process's part of it")
SCRAPES: Final = Place("runtime.scrapes", Scope.DUTY, "the thread that accepts scrapes, which begins again")
TRACES: Final = Place("runtime.traces", Scope.DUTY, "loading the library that sends traces; none are sent then")
HEALTH: Final = Place("runtime.health", Scope.DUTY, "the report of a member's conditions, and of its readiness")
LIBRARY: Final = Place("runtime.library", Scope.REQUEST, "a task or a thread of a library, whose end is not awaited")
CALLBACK: Final = Place(
    "runtime.callback", Scope.PROCESS, "a callback of the event loop: a reader, a writer, a timer, a turn"
)

PLACES: Final = (
    LINK,
    MESSAGE,
    PROCESS_MESSAGE,
    PACKING,
    CALL,
    LANE,
    SCRAPE,
    SCRAPES,
    TRACES,
    HEALTH,
    LIBRARY,
    CALLBACK,
)

_CALL_LOGGER: Final = "grpc._cython.cygrpc"
_UNEXPECTED: Final = "Unexpected ["
"""Begins gRPC's line about what a handler has raised, other than by `abort`."""

_log = get_logger("containment")


def log_contained(reports: Iterable[ContainedException]) -> None:
    for each in reports:
        _log_one(EVENT, each)


def _log_one(event: str, report: ContainedException) -> None:
    _log.error(
        event,
        limit_key=f"contained {report.place.name}",
        place=report.place.name,
        scope=report.place.scope.value,
        error=report.summary,
        **report.fields,
        traceback=report.traceback,
    )


class ProcessContainment:
    """What this process has contained outside of its core. Any thread may contain something."""

    def __init__(self, places: Iterable[Place]) -> None:
        self.on_contained: Callable[[], None] | None = None
        """Called after each one, by the thread that has contained it."""
        self._lock = threading.Lock()
        self._counts: dict[Place, int] = {}
        self._of_children: Counter[str] = Counter()
        self._recent = RecentExceptions()
        for place in places:
            self.declare(place)

    def declare(self, place: Place) -> None:
        """Count exceptions at this place from 0 on."""
        with self._lock:
            if place.scope is not Scope.PROCESS:
                self._counts.setdefault(place, 0)

    def contain(self, place: Place, error: BaseException, fields: Mapping[str, str | int] | None = None) -> None:
        """Report an exception that was caught at `place`."""
        _log_one(EVENT, describe_exception(place, error, fields or {}))
        self.count(place)

    def count(self, place: Place) -> None:
        """Count one that is in the log already."""
        with self._lock:
            self._counts[place] = self._counts.get(place, 0) + 1
        if self.on_contained is not None:
            self.on_contained()

    def heard(self, new: Mapping[str, int]) -> None:
        """A child process has contained so many more, by the names of places; its metrics have them already."""
        self._of_children.update(new)

    def conditions(self) -> list[Condition]:
        """Return what the member reports of this process and its children; on the event loop."""
        self._recent.follow(self._of_children + Counter(self.counts()), monotonic_ms())
        return self._recent.conditions()

    def counts(self) -> dict[str, int]:
        """Return how many there were, by the names of places."""
        with self._lock:
            return {place.name: count for place, count in self._counts.items()}

    def samples(self) -> Iterator[Sample]:
        with self._lock:
            counts = list(self._counts.items())
        for place, count in counts:
            yield Sample(CONTAINED_EXCEPTIONS, (place.service, place.name), count)


CONTAINED: Final = ProcessContainment(PLACES)


class _FailedCalls(logging.Handler):
    """Counts the calls whose handler has raised something: gRPC writes the line, and answers its caller."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and str(record.msg).startswith(_UNEXPECTED):
            CONTAINED.count(CALL)


def count_failed_calls() -> None:
    """Count those of all servers of this process from now on."""
    logger = logging.getLogger(_CALL_LOGGER)
    if not any(isinstance(each, _FailedCalls) for each in logger.handlers):
        logger.addHandler(_FailedCalls())


def end_process(place: Place, error: BaseException) -> None:
    """End this process at once, with the exception as its last line: something is half-done, and nothing says what
    relies on it.
    """
    _log_one(ENDS, describe_exception(place, error, {}))
    os._exit(FAULT_EXIT_CODE)
