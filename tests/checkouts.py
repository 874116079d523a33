"""How to run the code of a checkout of another version: where its packages are, and what they are called."""

from __future__ import annotations

import os
from pathlib import Path


def import_path(tree: Path) -> str:
    """Return a PYTHONPATH with all packages of the broker in this checkout."""
    patterns = ("cli/barnabas_*", "protos/barnabas_*", "services/*/barnabas_*")
    folders = {package.parent for pattern in patterns for package in tree.glob(pattern)}
    return os.pathsep.join(map(str, [tree, *sorted(folders)]))


def module_of(tree: Path, role: str) -> str:
    """Return the module that runs a service. Version 0.1.0 has its services in one package."""
    name = f"barnabas_{role}"
    return name if (tree / "services" / role / name).is_dir() else f"services.{role}"


def environment_of(tree: Path) -> dict[str, str]:
    """With it Python finds its packages there, and not where it is started."""
    return {"PYTHONPATH": import_path(tree), "PYTHONSAFEPATH": "1"}
