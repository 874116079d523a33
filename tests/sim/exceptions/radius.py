"""How far an exception may reach, by the place that it is thrown at: what runs have shown, reviewed, and held to since.

`radius.tsv` has a line for each call site: what an exception on entry may end, and what one on exit may; `-` where no
client of the simulation leads to it. A place that ends something else has changed its blast radius: look at it, then
run `python -m tests.sim.exceptions --learn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.sim.exceptions.account import Ended, Scope
from tests.sim.exceptions.call_sites import Moment, Place, call_sites, places
from tests.sim.exceptions.unreached import reasons

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
    """Return what the table allows, by place. A call that may end something on entry may do so on exit, and the other
    way round: that runs have shown one of them is chance.
    """
    return allowed_by(read(PATH))


def allowed_by(table: Radius) -> Radius:
    by_site: dict[str, frozenset[Scope]] = {}
    for place, scopes in table.items():
        by_site[place.site] = by_site.get(place.site, frozenset()) | scopes
    return {place: by_site[place.site] for place in table if by_site[place.site]}


def required(path: Path = PATH) -> frozenset[Place]:
    """Return the places that a campaign has to hit: all, but for those that the table has as never reached, and those
    that nothing can reach.
    """
    reachable = frozenset(place for place in places() if place not in reasons())
    return reachable - _unreached(path)


@cache
def _unreached(path: Path) -> frozenset[Place]:
    return frozenset(place for place, column in _columns(path) if column == _NEVER)


def _columns(path: Path) -> Iterator[tuple[Place, str]]:
    for line in path.read_text().splitlines() if path.exists() else ():
        site, *columns = line.split("\t")
        for moment, column in zip(Moment, columns, strict=True):
            yield Place(site, moment.value), column


def read(path: Path) -> dict[Place, frozenset[Scope]]:
    return {
        place: frozenset(Scope[word.upper()] for word in column.split(",") if word)
        for place, column in _columns(path)
        if column != _NEVER
    }


def write(path: Path, radius: Radius) -> None:
    lines = []
    for site in call_sites():
        columns = [_column(radius.get(Place(site, moment.value))) for moment in Moment]
        lines.append("\t".join([site, *columns]) + "\n")
    path.write_text("".join(lines))


def _column(scopes: frozenset[Scope] | None) -> str:
    return _NEVER if scopes is None else ",".join(scope.name.lower() for scope in sorted(scopes))
