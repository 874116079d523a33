"""Throws exceptions at chosen calls, and keeps an account of each: where it was thrown, and where it ended.

The methods are replaced in their classes for one run, before the first core is created, and put back after it; those
of a binary look at whether they are armed (`throwing_build`). Only calls of production's count: by a host of the
simulation, or by the core's own code on the way from a host. What the harness looks at in a core never raises.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from types import FrameType, FunctionType
from typing import Any, TypeAlias

from tests.sim.exceptions.account import Account, Thrown
from tests.sim.exceptions.call_sites import CallSite, Moment, Place, call_sites, compiled_sites
from tests.sim.nodes.controller import ControllerNode
from tests.sim.nodes.gateway import GatewayNode
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.nodes.purgatory import PurgatoryNode
from tests.sim.process import Process
from tests.sim.scheduler import InjectedFault, Scheduler

_HOSTS = "tests.sim.nodes."
Host: TypeAlias = ControllerNode | GatewayNode | LogstoreNode | PurgatoryNode


class Thrower:
    """`matches` says whether an armed call is one of those that raise; all are by default."""

    def __init__(self, sites: Iterable[str], account: Account) -> None:
        self._sites = {name: call_sites()[name] for name in sites}
        self._account = account
        self._armed: dict[str, set[str]] = {name: set() for name in self._sites}
        self._stays_armed = False
        self.matches: Callable[[tuple[Any, ...]], bool] = lambda arguments: True
        self.calls: Counter[str] = Counter()
        """Of production's, to armed sites."""
        self.is_throwing = False
        self._scheduler: Scheduler | None = None
        self._hosts: Sequence[Host] = ()
        self._numbers: dict[str, int] = {}
        """Of compiled sites, in what the build has of them."""
        self._are_looked_at: list[bool] = []

    def begin(self, scheduler: Scheduler, hosts: Sequence[Host], *, stays_armed: bool = False) -> None:
        """From now on armed places throw: once each, or every time."""
        self._scheduler = scheduler
        self._hosts = hosts
        self._stays_armed = stays_armed
        self.is_throwing = True

    def stop(self) -> None:
        self.is_throwing = False

    def arm(self, place: Place) -> None:
        self._armed[place.site].add(place.moment)
        self._look_at(place.site)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replace the methods, and put them back."""
        plain = [site for site in self._sites.values() if not site.is_compiled]
        originals = [site.original for site in plain]
        try:
            for site, original in zip(plain, originals, strict=True):
                setattr(site.owner, site.method, self._throwing(site, original))
            if len(plain) < len(self._sites):
                self._plant_compiled()
            yield
        finally:
            for site, original in zip(plain, originals, strict=True):
                setattr(site.owner, site.method, original)
            if len(plain) < len(self._sites):
                compiled_sites().ARMED[:] = [False] * len(compiled_sites().SITES)
                compiled_sites().CALLED.clear()

    def _plant_compiled(self) -> None:
        module = compiled_sites()
        names = [each.partition("=")[0] for each in module.SITES]

        def called(number: int, original: Callable[..., Any], target: object, *arguments: Any, **named: Any) -> Any:
            return self._call(self._sites[names[number]], original, target, arguments, named, sys._getframe(1))

        module.CALLED.append(called)
        self._numbers = {name: number for number, name in enumerate(names) if name in self._sites}
        self._are_looked_at = module.ARMED

    def _look_at(self, site: str) -> None:
        """Have a compiled method call `called`, or no longer."""
        if site in self._numbers:
            self._are_looked_at[self._numbers[site]] = len(self._armed[site]) > 0

    def _throwing(self, site: CallSite, original: FunctionType) -> Callable[..., Any]:
        armed = self._armed[site.name]

        @wraps(original)
        def called(target: object, /, *arguments: Any, **named: Any) -> Any:
            if not armed or not self.is_throwing:
                return original(target, *arguments, **named)
            bound = partial(original, target)
            return self._call(site, bound, target, arguments, named, sys._getframe(1))

        return called

    def _call(
        self,
        site: CallSite,
        original: Callable[..., Any],
        target: object,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        caller: FrameType,
    ) -> Any:
        armed = self._armed[site.name]
        if not armed or not self.is_throwing:
            return original(*arguments, **named)
        process = self._process_of(site, target, caller)
        if process is None or not process.alive:
            return original(*arguments, **named)
        self.calls[site.name] += 1
        if not self.matches((target, *arguments)):
            return original(*arguments, **named)
        if Moment.ENTRY.value in armed:
            raise self._fault(Place(site.name, Moment.ENTRY.value), process)
        result = original(*arguments, **named)
        # It may have been thrown further in by now, or the process may be gone.
        if Moment.EXIT.value in armed and self.is_throwing and process.alive:
            raise self._fault(Place(site.name, Moment.EXIT.value), process)
        return result

    def _fault(self, place: Place, process: Process) -> InjectedFault:
        assert self._scheduler is not None
        if not self._stays_armed:
            self._armed[place.site].discard(place.moment)
            self._look_at(place.site)
        thrown = Thrown(place, process, process.incarnation, self._scheduler.now_us)
        fault = self._account.thrown(thrown)
        self._scheduler.note(f"fault: {fault} in {process.name}")
        return fault

    def _process_of(self, site: CallSite, target: object, caller: FrameType) -> Process | None:
        """Return the process whose production code makes this call; None if it isn't one that counts."""
        module = caller.f_globals.get("__name__", "")
        # Compiled callers have no frames.
        if not site.is_compiled and not module.startswith((_HOSTS, f"barnabas_{site.service}.core")):
            return None
        frame: FrameType | None = caller
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            if module.startswith(_HOSTS):
                return _process_in(frame) or self._host_of(target) or self._host_of(frame.f_locals.get("core"))
            if module.startswith("tests.sim.") and module != __name__:
                return None
            frame = frame.f_back
        return None

    def _host_of(self, core: object) -> Process | None:
        return next((each for each in self._hosts if core is not None and each.core is core), None)


def _process_in(frame: FrameType) -> Process | None:
    """Return the process that a host's frame works for."""
    local = frame.f_locals
    for holder in (local.get("self"), local.get("node")):
        for each in (holder, getattr(holder, "_node", None), getattr(holder, "_process", None)):
            if isinstance(each, Process):
                return each
    return None
