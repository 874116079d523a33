"""Programs of Python that have environments of their own, in .cache/acceptance; their packages are pinned here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.acceptance.clusters import CACHE
from tests.compat.building import build

_FOLDER: Final = Path(__file__).parent
_LISTS: Final = "*/requirements.txt"


def _versions() -> dict[str, str]:
    versions = {}
    for path in sorted(_FOLDER.glob(_LISTS)):
        for line in path.read_text().splitlines():
            name, _, version = line.partition("==")
            versions[name] = version
    return versions


VERSIONS: Final = _versions()
"""Those that are pinned, by package."""


def bring(program: str, python: str = sys.executable) -> Path:
    """Return the directory of the program and of its `venv`. Raises UnavailableError."""
    commands = [
        [python, "-m", "venv", "--clear", "venv"],
        ["venv/bin/python", "-m", "pip", "install", "--quiet", "--requirement", "requirements.txt"],
    ]
    return build(_FOLDER / program, CACHE / program, commands)
