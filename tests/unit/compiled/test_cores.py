"""Which cores a process runs: by what was built, of which sources, for which Python, and what the environment asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from barnabas.cores import (
    COMPILED,
    INTERPRETED,
    LIBRARY,
    MANIFEST,
    VARIABLE,
    cores_of_process,
    digest,
    find_build,
    problem_of,
    running,
)
from scripts.compiled.sources import COMPILED as FOLDERS
from scripts.compiled.sources import COMPILED_FILES as FILES
from scripts.compiled.sources import INTERPRETED as EXCEPTIONS
from scripts.compiled.sources import PACKAGES, SEEN
from tests.releases import ROOT

ALONE = "services/gateway/barnabas_gateway/shell/d.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for path in ("barnabas/wire/a.py", "services/gateway/barnabas_gateway/core/b.py", ALONE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("first = 1\n")
    return tmp_path


FOLDERS_OF_TEST = ["barnabas/wire", "barnabas_gateway/core", "barnabas_gateway/shell/d.py"]


def built(checkout: Path, *, suffix: str = EXTENSION_SUFFIXES[0]) -> Path:
    folder = checkout / "build"
    folder.mkdir()
    manifest = {
        "suffix": suffix,
        "modules": ["barnabas.wire.a"],
        "folders": FOLDERS_OF_TEST,
        "digest": digest(FOLDERS_OF_TEST, checkout),
        "made_by": "",
    }
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def test_a_build_of_these_sources_is_taken(checkout: Path) -> None:
    folder = built(checkout)
    build = find_build([checkout / "absent", folder])
    assert build is not None
    assert build.library == folder / (LIBRARY + EXTENSION_SUFFIXES[0])
    assert build.modules == {"barnabas.wire.a"}
    assert problem_of(build, checkout) == ""


@pytest.mark.parametrize("path", ["barnabas/wire/a.py", "services/gateway/barnabas_gateway/core/b.py"])
def test_a_build_of_other_sources_is_not_taken(checkout: Path, path: str) -> None:
    build = find_build([built(checkout)])
    (checkout / path).write_text("first = 2\n")
    assert problem_of(build, checkout) == "they were built of other sources"
    (checkout / path).write_text("first = 1\n")
    assert problem_of(build, checkout) == ""
    (checkout / path).with_name("c.py").touch()
    assert problem_of(build, checkout) == "they were built of other sources"
    (checkout / path).with_name("c.py").unlink()
    (checkout / path).unlink()
    assert problem_of(build, checkout) == "they were built of other sources"


def test_of_a_file_that_is_named_alone_its_neighbours_do_not_count(checkout: Path) -> None:
    build = find_build([built(checkout)])
    (checkout / ALONE).with_name("c.py").touch()
    assert problem_of(build, checkout) == ""
    (checkout / ALONE).write_text("first = 2\n")
    assert problem_of(build, checkout) == "they were built of other sources"
    (checkout / ALONE).unlink()
    assert problem_of(build, checkout) == "they were built of other sources"


def test_a_build_for_another_python_is_not_taken(checkout: Path) -> None:
    build = find_build([built(checkout, suffix=".cpython-39-x86_64-linux-gnu.so")])
    assert "for another Python" in problem_of(build, checkout)


def test_there_may_be_no_build(tmp_path: Path) -> None:
    assert find_build([tmp_path]) is None
    assert problem_of(None) == "there is no build of them"


def cores_with(wanted: str) -> subprocess.CompletedProcess[str]:
    ask = "from barnabas_gateway.core.model import deadlines; from barnabas.cores import running; print(running())"
    environment = {**os.environ, VARIABLE: wanted}
    command = [sys.executable, "-c", ask]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_environment_decides() -> None:
    assert cores_with(INTERPRETED).stdout == f"{INTERPRETED}\n"
    has_build = not problem_of(find_build())
    assert cores_with("").stdout == f"{COMPILED if has_build else INTERPRETED}\n"
    forced = cores_with(COMPILED)
    if has_build:
        assert forced.stdout == f"{COMPILED}\n"
    else:
        assert forced.returncode != 0
        assert "CoresRefused: BARNABAS_CORES=compiled, but " in forced.stderr
    assert "neither compiled nor interpreted" in cores_with("fast").stderr


def test_another_process_shows_which_cores_it_runs() -> None:
    assert cores_of_process(os.getpid()) == running()
    assert cores_of_process(1 << 30) == ""


def test_the_lists_of_the_build_name_what_there_is() -> None:
    for name in (*FOLDERS, *FILES, *EXCEPTIONS):
        package, _, rest = name.partition("/")
        assert (ROOT / PACKAGES[package] / rest).exists(), name
    assert all(any(name.startswith(folder) for folder in FOLDERS) for name in EXCEPTIONS)
    assert set(FOLDERS) | set(FILES) <= set(SEEN)
