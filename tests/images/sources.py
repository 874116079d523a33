"""What an image is built from: the sources, and for a build without a network the wheels that they need."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
RECIPE: Final = "deploy/k8s/Dockerfile"
ROLES: Final = ("gateway", "logstore", "purgatory", "controller")
_CACHE: Final = ROOT / ".cache/image-wheels"


def copy_sources(directory: Path) -> None:
    """Copy the Dockerfile and what `.dockerignore` admits, as the checkout has it now."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    for name in (RECIPE, *(line[1:] for line in lines if line.startswith("!"))):
        source, target = ROOT / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target)


def wheels(source: Path, python_version: str) -> Path:
    """Return a directory with the wheels that the images of the tree at `source` are built from.

    They are what Barnabas needs and what builds it, for `python_version` ("3.12"). pip downloads them here, once for
    each set of requirements.
    """
    requirements = (source / "pyproject.toml").read_bytes() + (source / "constraints.txt").read_bytes()
    directory = _CACHE / hashlib.sha256(requirements + python_version.encode()).hexdigest()[:16]
    if directory.exists():
        return directory
    settings = tomllib.loads((source / "pyproject.toml").read_text())
    project, build = settings["project"], settings["build-system"]
    extras = project["optional-dependencies"]
    needed = [
        *project["dependencies"],
        *extras["controller"],
        *extras["gateway"],
        *extras["logstore"],
        *build["requires"],
    ]
    unfinished = directory.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    options = ["--quiet", "--only-binary", ":all:", "--python-version", python_version]
    options += ["--constraint", "constraints.txt", "--dest", str(unfinished)]
    subprocess.run([python_with_pip(), "-m", "pip", "download", *options, *needed], check=True, cwd=source)
    unfinished.rename(directory)
    return directory


def python_with_pip() -> str:
    """Return an interpreter that has pip: a venv made by uv has none."""
    for python in (sys.executable, "python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return python
    raise AssertionError("no pip: python3 -m pip is needed to fetch wheels for the images")
