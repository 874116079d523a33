"""`make image-test` as far as it goes without a Docker engine."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.images import builds
from tests.images.sources import RECIPE, ROOT, copy_sources
from tests.k8s.load_process import Report, clean
from tests.releases import Release


def test_without_a_docker_engine_one_line_says_so_and_nothing_fails(tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/docker.sock"
    done = subprocess.run(
        [sys.executable, "-m", "tests.images"],
        cwd=ROOT,
        env={**os.environ, "DOCKER_HOST": address, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"skipped: no Docker engine answers at {address} (DOCKER_HOST names another one)\n"


def test_an_image_is_built_from_what_the_docker_ignore_file_admits(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    assert (tmp_path / RECIPE).read_text() == (ROOT / RECIPE).read_text()
    copied = {path.name for path in tmp_path.iterdir()}
    assert {"barnabas", "cli", "services", "protos", "pyproject.toml", "constraints.txt"} <= copied
    assert "tests" not in copied
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.parametrize("ignore_file", [".dockerignore", "deploy/pipeline/Dockerfile.dockerignore"])
def test_an_image_can_be_built_where_the_wheel_has_a_build_hook(ignore_file: str) -> None:
    """The hook came with compiled cores, its file was not admitted, and no image could be built any more."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hooks = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    admitted = {line[1:] for line in (ROOT / ignore_file).read_text().splitlines() if line.startswith("!")}
    assert {hook["path"] for hook in hooks.values()} <= admitted


def test_without_history_an_upgrade_starts_from_the_same_sources_under_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "releases", lambda: [Release("0.0.1", "0" * 40)])
    (tmp_path / "present").mkdir()
    (tmp_path / "before").mkdir()
    present = builds.put_present(tmp_path / "present")
    before = builds.put_before(tmp_path / "before")
    assert before.number == f"{present.number}.dev0"
    assert f'version = "{before.number}"' in (tmp_path / "before/pyproject.toml").read_text()
    assert before.image("gateway") != present.image("gateway")


@pytest.mark.parametrize("fault", ["lost", "duplicated", "unseen", "errors"])
def test_a_load_that_lost_or_doubled_a_record_fails_the_step(fault: str) -> None:
    figures = {"lost": [], "duplicated": [], "unseen": [], "errors": [], "retried": {}, "longest_silence_s": 0.1}
    figures |= {"produced": 2, "acknowledged": 2, "redelivered": 0}
    assert clean([Report(figures)]).startswith("2 of 2 records acknowledged; lost 0, twice in the log 0")
    with pytest.raises(AssertionError, match=f"^{fault}: 1 "):
        clean([Report({**figures, fault: ["0-1"]})])
