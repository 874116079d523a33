"""All families that any process of Barnabas may report: what the modules `*_families` beside this one declare.

docs/reference/metrics.md is made of it, and the dashboard and the alert rules are held to it.
"""

from __future__ import annotations

import importlib
import pkgutil

import barnabas.metrics
from barnabas.metrics.family import Family


def _declared() -> dict[str, tuple[Family, ...]]:
    """By module, in the order of their declaration. Raises where two have one name: they could not be told apart."""
    by_module: dict[str, tuple[Family, ...]] = {}
    names: set[str] = set()
    for found in sorted(pkgutil.iter_modules(barnabas.metrics.__path__), key=lambda found: found.name):
        if not found.name.endswith("_families"):
            continue
        module = importlib.import_module(f"barnabas.metrics.{found.name}")
        families = tuple(each for each in vars(module).values() if isinstance(each, Family))
        for family in families:
            assert family.name not in names, f"{family.name} is declared twice"
            names.add(family.name)
        by_module[found.name] = families
    return by_module


FAMILIES_BY_MODULE: dict[str, tuple[Family, ...]] = _declared()
FAMILIES: dict[str, Family] = {family.name: family for families in FAMILIES_BY_MODULE.values() for family in families}
