"""How an interpreter was built, and which of several `scripts/setup` takes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from barnabas.runtime.interpreter import build_flags, is_optimized
from tests.releases import ROOT

OPTIMIZED, UNOPTIMIZED, TOO_OLD = 0, 3, None


@pytest.mark.parametrize(
    ("configure", "compiler_flags", "base_prefix", "flags", "optimized"),
    [
        ("'--enable-optimizations' '--with-lto'", "-O3", "/usr/local", "PGO and LTO", True),
        ("'--prefix=/opt'", "-O3 -fprofile-use -fprofile-correction", "/opt", "PGO", True),
        ("'--with-lto'", "-O3 -flto", "/opt", "LTO", False),
        ("'--prefix=/opt' '--enable-shared'", "-O3 -DPy_BUILD_CORE", "/opt", "not optimized", False),
        ("'--prefix=/usr' '--enable-shared'", "-O2", "/usr", "as the distribution builds it", True),
    ],
)
def test_flags_of_a_build(
    configure: str, compiler_flags: str, base_prefix: str, flags: str, *, optimized: bool
) -> None:
    assert build_flags(configure, compiler_flags, base_prefix) == flags
    assert is_optimized(flags) is optimized


def interpreter(directory: Path, name: str, status: int | None, *, makes_venv: bool = True) -> Path:
    """Write a stand-in for an interpreter: `interpreter.py` ends with `status` in it; None says that it is too old."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    version = 1 if status is None else 0
    path.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *version_info*) exit {version};; *ensurepip*) exit {0 if makes_venv else 1};;'
        f" *interpreter.py*) exit {status or 0};; esac\n"
    )
    path.chmod(0o755)
    return path


def found(*directories: Path, python: str = "") -> str:
    """Return what `find_python` of scripts/setup prints with only these directories on PATH."""
    function = re.search(r"^find_python\(\) \{.*?^\}", (ROOT / "scripts/setup").read_text(), re.MULTILINE | re.DOTALL)
    assert function is not None
    done = subprocess.run(
        ["/bin/bash", "-c", f"set -euo pipefail\n{function[0]}\nfind_python"],
        env={"PATH": os.pathsep.join(map(str, directories)), "PYTHON": python},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip()


def test_setup_prefers_an_optimized_interpreter(tmp_path: Path) -> None:
    interpreter(tmp_path / "a", "python3", UNOPTIMIZED)
    optimized = interpreter(tmp_path / "b", "python3.12", OPTIMIZED)
    assert found(tmp_path / "a", tmp_path / "b") == str(optimized)


def test_setup_takes_an_interpreter_that_is_not_optimized_where_there_is_no_other(tmp_path: Path) -> None:
    interpreter(tmp_path / "a", "python3", TOO_OLD)
    unoptimized = interpreter(tmp_path / "b", "python3.13", UNOPTIMIZED)
    assert found(tmp_path / "a", tmp_path / "b") == str(unoptimized)


def test_setup_prefers_an_interpreter_that_can_make_a_venv(tmp_path: Path) -> None:
    """Debian's python3 without python3-venv is optimized and of no use by itself."""
    alone = interpreter(tmp_path / "a", "python3", OPTIMIZED, makes_venv=False)
    unoptimized = interpreter(tmp_path / "b", "python3", UNOPTIMIZED)
    assert found(tmp_path / "a", tmp_path / "b") == str(unoptimized)
    assert found(tmp_path / "a") == str(alone)


def test_setup_takes_the_interpreter_that_it_is_given(tmp_path: Path) -> None:
    given = interpreter(tmp_path / "a", "python-of-mine", UNOPTIMIZED)
    interpreter(tmp_path / "b", "python3", OPTIMIZED)
    assert found(tmp_path / "b", tmp_path / "a", python="python-of-mine") == str(given)


def test_setup_says_that_there_is_no_interpreter(tmp_path: Path) -> None:
    interpreter(tmp_path / "a", "python3", TOO_OLD)
    assert "no Python 3.11 or newer on PATH" in found(tmp_path / "a")
