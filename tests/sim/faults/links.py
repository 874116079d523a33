"""What goes wrong in the network, within what TCP allows: nothing is lost or overtaken within a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tests.sim.faults.kinds import Fault
from tests.sim.scheduler import MS, SECOND
from tests.sim.weather import Weather

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.faults.swarm import Faults

Direction = tuple[str, str]


def _hosts(faults: Faults) -> list[str]:
    return [each.name for each in faults.cluster.processes]


def _both_ways(pairs: Iterable[Direction]) -> list[Direction]:
    return [direction for one, other in pairs for direction in ((one, other), (other, one))]


# --- cuts ------------------------------------------------------------------------------------------------------------


def _cut(faults: Faults, fault: Fault, directions: list[Direction]) -> None:
    network = faults.cluster.network
    hit = faults.first_hit(fault)

    def heal() -> None:
        for source, target in directions:
            network.heal(source, target)

    for source, target in directions:
        network.cut(source, target, hit)
    faults.later(6 * SECOND, "a cut heals", heal)


def cut(faults: Faults) -> None:
    one, other = faults.random.sample(_hosts(faults), 2)
    _cut(faults, Fault.CUT, _both_ways([(one, other)]))


def cut_one_way(faults: Faults) -> None:
    one, other = faults.random.sample(_hosts(faults), 2)
    _cut(faults, Fault.CUT_ONE_WAY, [(one, other)])


def isolate(faults: Faults) -> None:
    hosts = _hosts(faults)
    alone = faults.random.choice(hosts)
    _cut(faults, Fault.ISOLATE, _both_ways((alone, each) for each in hosts if each != alone))


def _halves(faults: Faults, hosts: list[str]) -> list[Direction]:
    side = {each: faults.random.random() < 0.5 for each in hosts}
    return _both_ways((one, other) for one in hosts for other in hosts if side[one] and not side[other])


def split(faults: Faults) -> None:
    _cut(faults, Fault.SPLIT, _halves(faults, _hosts(faults)))


def bridge(faults: Faults) -> None:
    hosts = _hosts(faults)
    hosts.remove(faults.random.choice(hosts))
    _cut(faults, Fault.BRIDGE, _halves(faults, hosts))


# --- weather ---------------------------------------------------------------------------------------------------------


def _worsen(faults: Faults, directions: list[Direction], weather: Callable[[], Weather]) -> None:
    """Each direction has a weather of its own, until it clears."""
    network = faults.cluster.network
    worse = {direction: weather() for direction in directions}
    network.weather |= worse

    def clear() -> None:
        for direction, each in worse.items():
            if network.weather.get(direction) is each:
                del network.weather[direction]

    faults.later(5 * SECOND, "the weather clears", clear)


def _from_host(faults: Faults) -> list[Direction]:
    hosts = _hosts(faults)
    host = faults.random.choice(hosts)
    return [(host, each) for each in hosts if each != host]


def _of_link(faults: Faults) -> list[Direction]:
    one, other = faults.random.sample(_hosts(faults), 2)
    return _both_ways([(one, other)])


def loss(faults: Faults) -> None:
    hit, share = faults.first_hit(Fault.LOSS), faults.random.choice((0.02, 0.1, 0.3))
    _worsen(faults, _from_host(faults), lambda: Weather(hit, loss=share))


def jitter(faults: Faults) -> None:
    hit, jitter_us = faults.first_hit(Fault.JITTER), faults.random.choice((10, 100, 800)) * MS
    directions = [(one, other) for one in _hosts(faults) for other in _hosts(faults) if one != other]
    _worsen(faults, directions, lambda: Weather(hit, jitter_us=jitter_us))


def slow(faults: Faults) -> None:
    hit, factor = faults.first_hit(Fault.SLOW), faults.random.choice((5, 20, 100))
    _worsen(faults, _from_host(faults), lambda: Weather(hit, factor=factor))


def slow_link(faults: Faults) -> None:
    hit, factor = faults.first_hit(Fault.SLOW_LINK), faults.random.choice((20, 100, 500))
    _worsen(faults, _of_link(faults), lambda: Weather(hit, factor=factor))


# --- connections -----------------------------------------------------------------------------------------------------


def reset(faults: Faults) -> None:
    host = faults.random.choice(_hosts(faults))
    if faults.cluster.network.break_connections(host, faults.random.random()):
        faults.hit(Fault.RESET)


def reset_mid_frame(faults: Faults) -> None:
    """At some client's, when something is on its way there or back."""
    hit = faults.first_hit(Fault.RESET_MID_FRAME)
    hosts = [each.name for each in (*faults.cluster.gateways, *faults.cluster.clients)]

    def attempt(left: int) -> None:
        if faults.cluster.network.tear(faults.random.choice(hosts)):
            hit()
        elif left:
            faults.later(20 * MS, "looks for a message to tear", lambda: attempt(left - 1))

    attempt(30)


def half_open(faults: Faults) -> None:
    host = faults.random.choice(_hosts(faults))
    if faults.cluster.network.half_open(host, faults.random.random()):
        faults.hit(Fault.HALF_OPEN)


STRIKES: dict[Fault, Callable[[Faults], None]] = {
    Fault.LOSS: loss,
    Fault.JITTER: jitter,
    Fault.CUT: cut,
    Fault.CUT_ONE_WAY: cut_one_way,
    Fault.ISOLATE: isolate,
    Fault.SPLIT: split,
    Fault.BRIDGE: bridge,
    Fault.HALF_OPEN: half_open,
    Fault.SLOW: slow,
    Fault.SLOW_LINK: slow_link,
    Fault.RESET: reset,
    Fault.RESET_MID_FRAME: reset_mid_frame,
}


def heal(cluster: Cluster) -> None:
    cluster.network.heal_all()
