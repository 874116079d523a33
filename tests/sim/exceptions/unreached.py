"""The call sites that no process of the simulation comes to, and why.

`unreached.tsv` has a line for each: the site, and the reason. What it names need not be hit; where a run hits one, the
line is wrong, and the campaign fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.sim.exceptions.call_sites import Place

PATH = Path(__file__).with_name("unreached.tsv")


@cache
def reasons(path: Path = PATH) -> dict[str, str]:
    """By the name of a call site."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        site, reason = line.split("\t")
        found[site] = reason
    return found


def reached_nevertheless(hit: Iterable[Place]) -> list[Place]:
    """Return those of the places that should not be reached."""
    return sorted(place for place in hit if place.site in reasons())
