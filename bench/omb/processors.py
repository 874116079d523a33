"""Which processors the sides and the load run on: apart, so that neither takes time of the other, or together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from barnabas_cli.local.processes import ProcessIdentity, session_members


class Placement(StrEnum):
    APART = "apart"
    """The brokers of both sides on all processors but the last, the load on the last."""
    TOGETHER = "together"
    """All on all of them."""


@dataclass(slots=True, frozen=True)
class Processors:
    """Numbers of processors, as `taskset --cpu-list` has them."""

    sides: frozenset[int]
    load: frozenset[int]


def place(placement: Placement, available: Iterable[int]) -> Processors:
    """Divide the processors that this process may run on.

    Raises ValueError: brokers and load are to be apart, and there is only one.
    """
    numbers = sorted(available)
    if placement is Placement.TOGETHER:
        return Processors(frozenset(numbers), frozenset(numbers))
    if len(numbers) < 2:
        raise ValueError("one processor can't be divided between brokers and load")
    return Processors(frozenset(numbers[:-1]), frozenset(numbers[-1:]))


@contextlib.contextmanager
def running_on(processors: Iterable[int]) -> Iterator[None]:
    """Move this thread, and with it what it starts meanwhile, to these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def processors_of(sessions: Iterable[ProcessIdentity]) -> frozenset[int]:
    """Return all processors that any thread of these processes may run on, as the kernel has it."""
    found: set[int] = set()
    for session in sessions:
        for pid in session_members(session):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with contextlib.suppress(ProcessLookupError):
                        found |= os.sched_getaffinity(int(thread))
    return frozenset(found)


def in_words(processors: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(processors)))
