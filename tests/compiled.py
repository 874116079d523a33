"""Tests with compiled cores (`make compiled-test`): which of them can't be run there, and why.

A test that replaces a function, a method or a number of a compiled module is skipped when it does so: what is compiled
calls functions directly, and has numbers where they are used.
"""

from __future__ import annotations

import os
from types import GetSetDescriptorType, ModuleType

import pytest

from barnabas.cores import COMPILED, PLACES, ROOT, find_build, running
from tests import THROWING_FOLDER

THROWING = ROOT / THROWING_FOLDER
"""Where `tests.sim.exceptions.throwing_build` leaves its binary."""


def interpreted_only(reason: str) -> pytest.MarkDecorator:
    """Skip a test, or a module as its `pytestmark`, where the cores are compiled."""
    return pytest.mark.skipif(running() == COMPILED, reason=f"the cores are compiled, and this {reason}")


def can_throw() -> bool:
    """Return whether the compiled cores of this process can throw exceptions where a test says."""
    return bool(os.environ.get("THROWING_CORES"))


COUNTS = "counts what the interpreter executes"


def attributes_of(each: type) -> list[str]:
    """Return the names of what its objects keep: its slots, or those of a compiled class."""
    compiled = [name for name, value in vars(each).items() if isinstance(value, GetSetDescriptorType)]
    return list(getattr(each, "__slots__", compiled))


_modules = frozenset[str]()


def skip_what_replaces_compiled_code() -> None:
    """Have `MonkeyPatch.setattr` skip the test in place of replacing what is compiled."""
    global _modules
    build = find_build([THROWING] if can_throw() else PLACES)
    assert build is not None
    _modules = build.modules
    replace = pytest.MonkeyPatch.setattr

    def replace_or_skip(self: pytest.MonkeyPatch, target: object, *arguments: object, **options: object) -> None:
        owner = _owner_of(target)
        if owner in _modules:
            pytest.skip(f"it replaces a part of {owner}, which is compiled")
        replace(self, target, *arguments, **options)  # type: ignore[call-overload]

    pytest.MonkeyPatch.setattr = replace_or_skip  # type: ignore[method-assign]


def _owner_of(target: object) -> str:
    if isinstance(target, str):
        module, _, _ = target.rpartition(".")
        return module if module in _modules else module.rpartition(".")[0]
    if isinstance(target, ModuleType):
        return target.__name__
    return str(getattr(target if isinstance(target, type) else type(target), "__module__", ""))
