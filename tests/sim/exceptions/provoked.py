"""The call sites that handle what has been raised elsewhere, and the places at which an exception leads there.

`provoked.tsv` has a line for each: the site, and those places. A tour of the site throws at them, too, and the site is
armed from the beginning of the run. So is one without such places: it is called early, or so seldom that the first call
counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.sim.exceptions.call_sites import Place

PATH = Path(__file__).with_name("provoked.tsv")


@cache
def provoking(path: Path = PATH) -> Mapping[str, tuple[Place, ...]]:
    """Return the places that lead to a site, by its name."""
    found: dict[str, tuple[Place, ...]] = {}
    for line in path.read_text().splitlines():
        site, places = line.split("\t")
        found[site] = tuple(map(Place.parse, places.split(",") if places else ()))
    return found
