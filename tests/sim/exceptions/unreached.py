"""The places that no process of the simulation comes to, and why.

`unreached.tsv` has a line for each: a call site, or one place of it, and the reason. What it names need not be hit;
where a run hits one, the line is wrong, and the campaign fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.sim.exceptions.call_sites import Moment, Place

PATH = Path(__file__).with_name("unreached.tsv")


@cache
def reasons(path: Path = PATH) -> dict[Place, str]:
    """Return them by place, in the order of the lines."""
    found: dict[Place, str] = {}
    for line in path.read_text().splitlines():
        name, reason = line.split("\t")
        site, _, moment = name.partition(":")
        for each in Moment:
            if moment in ("", each.value):
                found[Place(site, each.value)] = reason
    return found


def reached_nevertheless(hit: Iterable[Place]) -> list[Place]:
    """Return those of the places that should not be reached."""
    return sorted(place for place in hit if place in reasons())
