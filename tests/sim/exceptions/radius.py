"""How far an exception may reach, by the place that it is thrown at: what runs have shown, reviewed, and held to since.

`radius.tsv` has a line for each call site that the simulation reaches: what an exception on entry may end, and what one
on exit may. A place that ends something else has changed its blast radius: look at it, then run
`python -m tests.sim.exceptions --learn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from tests.sim.exceptions.account import Ended, Scope
from tests.sim.exceptions.call_sites import Moment, Place

PATH = Path(__file__).with_name("radius.tsv")
_NEVER = "-"

Radius = Mapping[Place, frozenset[Scope]]


def observed(ended: Iterable[Ended]) -> dict[Place, frozenset[Scope]]:
    """Return the scopes that were seen; a place whose process ended by something else first is there without any."""
    found: dict[Place, frozenset[Scope]] = {}
    for each in ended:
        scopes = frozenset[Scope]() if each.scope is None else {each.scope}
        found[each.place] = found.get(each.place, frozenset()) | scopes
    return found


def merged(first: Radius, second: Radius) -> dict[Place, frozenset[Scope]]:
    return {place: first.get(place, frozenset()) | second.get(place, frozenset()) for place in {**first, **second}}


@cache
def expected() -> Radius:
    return read(PATH)


def read(path: Path) -> dict[Place, frozenset[Scope]]:
    radius: dict[Place, frozenset[Scope]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        site, *columns = line.split("\t")
        for moment, column in zip(Moment, columns, strict=True):
            if column != _NEVER:
                radius[Place(site, moment.value)] = frozenset(Scope[word.upper()] for word in column.split(",") if word)
    return radius


def write(path: Path, radius: Radius) -> None:
    lines = []
    for site in sorted({place.site for place in radius}):
        columns = [_column(radius.get(Place(site, moment.value))) for moment in Moment]
        lines.append("\t".join([site, *columns]) + "\n")
    path.write_text("".join(lines))


def _column(scopes: frozenset[Scope] | None) -> str:
    return _NEVER if scopes is None else ",".join(scope.name.lower() for scope in sorted(scopes))
