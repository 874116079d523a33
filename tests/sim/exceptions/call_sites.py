"""The calls at which an exception may be thrown: every public method of every class of the four cores.

They are found by looking, not listed: a part that is added is covered when it is written.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from barnabas.cores import COMPILED, running

SERVICES = ("controller", "gateway", "logstore", "purgatory")
MODULE = "barnabas.ports.call_sites"
"""Of the build in which compiled methods can throw; see `throwing_build`."""


class Moment(Enum):
    """`ENTRY`: nothing of the call has been done. `EXIT`: all of it has been done, and its result is lost."""

    ENTRY = "entry"
    EXIT = "exit"


@dataclass(slots=True, frozen=True)
class CallSite:
    """One method of a class of a core; `name` is `service.Class.method`."""

    name: str
    owner: type[Any]
    method: str

    @property
    def service(self) -> str:
        return self.name.partition(".")[0]

    @property
    def is_compiled(self) -> bool:
        """It can't be replaced in its class."""
        return not isinstance(vars(self.owner)[self.method], FunctionType)

    @property
    def original(self) -> FunctionType:
        function = vars(self.owner)[self.method]
        assert isinstance(function, FunctionType)
        return function


@dataclass(slots=True, frozen=True, order=True)
class Place:
    """Where an exception is thrown."""

    site: str
    moment: str

    def __str__(self) -> str:
        return f"{self.site}:{self.moment}"

    @classmethod
    def parse(cls, text: str) -> Place:
        site, _, moment = text.partition(":")
        return cls(site, Moment(moment).value)


@cache
def call_sites() -> dict[str, CallSite]:
    """Return all of them by name, in the order of their names."""
    found = [site for service in SERVICES for site in _sites_of(service)]
    if running() == COMPILED:
        for name, _, module in (each.partition("=") for each in compiled_sites().SITES):
            _, owner, method = name.split(".")
            found.append(CallSite(name, getattr(importlib.import_module(module), owner), method))
    by_name = {site.name: site for site in sorted(found, key=lambda site: site.name)}
    assert len(by_name) == len(found), "two classes of a service have the same name and method"
    return by_name


def compiled_sites() -> ModuleType:
    """Return the module that says which compiled methods look at whether they throw. Raises ImportError without it."""
    return importlib.import_module(MODULE)


@cache
def places() -> tuple[Place, ...]:
    return tuple(Place(name, moment.value) for name in call_sites() for moment in Moment)


def _sites_of(service: str) -> Iterator[CallSite]:
    for owner in _classes_of(service):
        for method, function in vars(owner).items():
            if isinstance(function, FunctionType) and not method.startswith("_") and not _is_abstract(function):
                yield CallSite(f"{service}.{owner.__name__}.{method}", owner, method)


def _is_abstract(function: FunctionType) -> bool:
    """It has no body: who overrides it is a call site."""
    return getattr(function, "__isabstractmethod__", False)


def _classes_of(service: str) -> Iterator[type[Any]]:
    package = importlib.import_module(f"barnabas_{service}.core")
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        for each in vars(module).values():
            if inspect.isclass(each) and each.__module__ == info.name and _has_calls(each):
                yield each


def _has_calls(owner: type[Any]) -> bool:
    """Values of an enumeration, errors and protocols are no parts of a core."""
    return not issubclass(owner, (Enum, BaseException)) and not getattr(owner, "_is_protocol", False)
