"""A failure, and how it came about, for people: of thousands of events those that concern it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LINES_MAX = 40
# What a run with a story remembers: more than the story of a failure needs to begin with.
REMEMBERED_LINES = 50_000
# Of all processes: faults of the cluster, and changes of roles.
_FOR_ALL = re.compile(r"fault: |\bstarts$|\bis killed$|\bis \w+ to stop$|\bis (active|standby) in|\bleads\b|\bISR\b")
# What happens all the time and says nothing.
_BORING = re.compile(r"\b(turn|ticks|wakes|may produce|fetches on|goes on)$|\b(heartbeat|positions \[\])")


@dataclass(slots=True)
class Failure:
    """`place` is where in the code it was noticed: two failures of one place are of one kind. `processes` and
    `partitions` are the names of those that the message speaks of.
    """

    message: str
    place: str
    at_us: int
    processes: list[str]
    partitions: list[str]

    def __str__(self) -> str:
        return f"{self.message} ({self.place.partition(' < ')[0]})"


def short_story(failure: Failure, remembered: Sequence[str], lines_max: int = LINES_MAX) -> list[str]:
    """The last events that concern the failure, newest last: when, who, what.

    Where the message names partitions, theirs; otherwise those of the processes that it names; otherwise all.
    """
    reported = failure.partitions or failure.processes
    names = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in reported)) if reported else None
    story: list[str] = []
    for line in reversed(remembered):
        if len(story) == lines_max:
            break
        concerns = names is None or names.search(line) is not None
        if _FOR_ALL.search(line) or (concerns and not _BORING.search(line)):
            story.append(_prose(line))
    return story[::-1]


def _prose(line: str) -> str:
    at_us, _, what = line.strip().partition(" ")
    return f"{int(at_us) / 1_000_000:>11.6f} s  {what[:200]}"
