"""`make image-test` as far as it goes without a Docker engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.images.sources import RECIPE, ROOT, copy_sources


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
    assert {"barnabas", "services", "protos", "pyproject.toml", "constraints.txt"} <= copied
    assert "tests" not in copied
    assert not list(tmp_path.rglob("__pycache__"))
