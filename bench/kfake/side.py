"""Builds kfake with the Go on PATH, and runs it as a side of a comparison."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from barnabas_cli.local.layout import HOST
from barnabas_cli.local.ports import accepts
from barnabas_cli.local.processes import ProcessIdentity, last_lines, spawn, stop

_SOURCE: Final = Path(__file__).parent
_CACHE: Final = _SOURCE.parents[1] / ".cache/kfake"
_PORT: Final = 28_400
_BUILD_SECONDS_MAX: Final = 300
_READY_SECONDS_MAX: Final = 20


class KfakeMissingError(Exception):
    """kfake can't be built here; the message says why."""


def build() -> Path:
    """Return the program, built from the sources beside this file unless it is newer. Raises KfakeMissingError."""
    binary = _CACHE / "kfake"
    sources = [_SOURCE / name for name in ("main.go", "go.mod", "go.sum")]
    if binary.exists() and binary.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return binary
    go = shutil.which("go")
    if go is None:
        raise KfakeMissingError("there is no go on PATH")
    _CACHE.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    argv = [go, "build", "-o", str(binary), "."]
    try:
        done = subprocess.run(
            argv, cwd=_SOURCE, env=environment, capture_output=True, text=True, timeout=_BUILD_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise KfakeMissingError(f"go build was not done after {_BUILD_SECONDS_MAX} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise KfakeMissingError(f"go build failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return binary


class KfakeSide:
    """One broker that keeps everything in memory, until its topic is deleted."""

    name = "kfake"
    bootstrap = f"{HOST}:{_PORT}"

    def __init__(self, binary: Path, directory: Path) -> None:
        self._binary = binary
        self._log_path = directory / "kfake.log"
        self._identity: ProcessIdentity | None = None

    @property
    def flags(self) -> dict[str, str]:
        return {"module": next(line for line in _manifest() if "pkg/kfake" in line).removeprefix("require ")}

    @property
    def sessions(self) -> list[ProcessIdentity]:
        return [] if self._identity is None else [self._identity]

    def start(self) -> None:
        """Return when it accepts connections. Raises RuntimeError."""
        self._identity = spawn([str(self._binary), str(_PORT)], self._log_path, dict(os.environ))
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while not accepts(_PORT):
            if time.monotonic() > deadline:
                raise RuntimeError("\n".join(["kfake does not listen:", *last_lines(self._log_path, 5)]))
            time.sleep(0.05)

    def stop(self) -> None:
        stop(self.sessions, grace_seconds=5)
        self._identity = None


def _manifest() -> list[str]:
    return (_SOURCE / "go.mod").read_text().splitlines()
