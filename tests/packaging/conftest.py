"""Both distributions, built as a release is: an sdist from the checkout, and the wheel from the unpacked sdist."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.cores import COMPILED, VARIABLE, find_build, problem_of
from tests.releases import ROOT

PROJECTS = {"barnabas": ROOT, "barnabas_pipeline": ROOT / "pipeline"}


@dataclass(slots=True, frozen=True)
class Distribution:
    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Distribution]:
    """By the name that their files begin with."""
    return {name: _build(project, tmp_path_factory.mktemp(name)) for name, project in PROJECTS.items()}


def _build(project: Path, directory: Path) -> Distribution:
    _hatchling(project, "sdist", directory)
    (sdist,) = directory.glob("*.tar.gz")
    subprocess.run(["tar", "--extract", "--file", sdist, "--directory", directory], check=True)
    _hatchling(directory / sdist.name.removesuffix(".tar.gz"), "wheel", directory)
    (wheel,) = directory.glob("*.whl")
    return Distribution(sdist, wheel)


@pytest.fixture(scope="session")
def compiled_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the binary of the cores, of the checkout itself."""
    problem = problem_of(find_build())
    if problem:
        pytest.skip(f"compiled cores: {problem}; make compiled")
    directory = tmp_path_factory.mktemp("compiled")
    _hatchling(ROOT, "wheel", directory, {**os.environ, VARIABLE: COMPILED})
    (wheel,) = directory.glob("*.whl")
    return wheel


def _hatchling(project: Path, target: str, directory: Path, environment: Mapping[str, str] = os.environ) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(directory)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, text=True, env=dict(environment))


@dataclass(slots=True, frozen=True)
class Environment:
    """A virtual environment, and an empty directory to run its programs in."""

    path: Path
    directory: Path

    def install(self, *requirements: str) -> None:
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        self.run("python", "-m", "pip", "install", "--quiet", *constraints, *requirements)

    def run(self, program: str, *arguments: str) -> str:
        """Return what it printed; a failure is an AssertionError with all of it."""
        done = subprocess.run(
            [str(self.path / "bin" / program), *arguments],
            cwd=self.directory,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def variables(self) -> dict[str, str]:
        """Nothing leads to the checkout, but for an etcd that it may have obtained."""
        dropped = ("PYTHON", "VIRTUAL_ENV", VARIABLE)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        return {**kept, "PATH": f"{self.path / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def new_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Environment]:
    def make() -> Environment:
        path = tmp_path_factory.mktemp("environment")
        venv.create(path, with_pip=True)
        return Environment(path, tmp_path_factory.mktemp("empty"))

    return make
