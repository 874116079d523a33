"""Builds programs from sources of the tree and packages of the registries; says why where that can't be done."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
BUILD_SECONDS_MAX: Final = 1500


class UnavailableError(Exception):
    """A toolchain that is not here, or can't build; the message says what was seen."""


def need(*tools: str) -> None:
    """Raises UnavailableError if one of them is not on PATH."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise UnavailableError(f"{', '.join(missing)} not on PATH")


def build(sources: Path, directory: Path, commands: list[list[str]]) -> Path:
    """Build a copy of the sources in `directory`, once for what they are now. Raises UnavailableError."""
    files = sorted(path for path in sources.rglob("*") if path.is_file())
    digest = hashlib.sha256(repr(commands).encode())
    for path in files:
        digest.update(path.read_bytes())
    stamp = directory / ".built"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return directory
    shutil.copytree(sources, directory, dirs_exist_ok=True)
    stamp.unlink(missing_ok=True)
    # Jars of another version would come first, or second.
    for jar in directory.rglob("libs/*.jar"):
        jar.unlink()
    for command in commands:
        run_tool(["nice", "-n", "5", *command], directory, directory.with_name(f"{directory.name}.log"))
    stamp.write_text(digest.hexdigest())
    return directory


def run_tool(command: list[str], cwd: Path, log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command, cwd=cwd, stdout=output, stderr=subprocess.STDOUT, timeout=BUILD_SECONDS_MAX, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{_spoken(command)} was not done after {BUILD_SECONDS_MAX} s") from None
    if code != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise UnavailableError(f"{_spoken(command)} failed: {' / '.join(lines[-3:])[:400]}")


def _spoken(command: list[str]) -> str:
    return " ".join(Path(word).name if os.sep in word else word for word in command if not word.startswith("-n"))[:80]
