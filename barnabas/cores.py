"""Which cores a process runs: the plain modules, or the binary that `make compiled` makes of the same sources.

A checkout has the binary in `build/compiled`, a wheel with binaries in the package itself. `select`, called when
`barnabas` is imported, lets Python find the modules in it if it is of this Python and of the sources as they are now;
else a process runs the plain modules. BARNABAS_CORES in the environment says otherwise: `interpreted` never takes the
binary, and with `compiled` a process that can't take it does not start.

It is all modules or none: a compiled module knows the layout of the objects of all others.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import abc
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "BARNABAS_CORES"
COMPILED, INTERPRETED = "compiled", "interpreted"
LIBRARY = "barnabas_cores__mypyc"
"""What mypyc calls the module that makes all others."""

LOADER = "barnabas_cores_loader"
"""A module in the same file, of one function: it calls what makes a module."""

ROOT = Path(__file__).resolve().parents[1]
"""Of the checkout, or where the wheel is installed."""

MANIFEST = "barnabas_cores.json"
PLACES = (ROOT / "build/compiled", ROOT / "barnabas/binaries")
"""Where a build is looked for."""


class CoresRefused(RuntimeError):  # noqa: N818 - the message is for who started the process
    """BARNABAS_CORES asks for what can't be had."""


@dataclass(slots=True, frozen=True)
class Build:
    """A binary, and what it was made of."""

    library: Path
    suffix: str
    """With which this Python loads it."""
    modules: frozenset[str]
    folders: tuple[str, ...]
    """What it depends on, named as in a wheel."""
    digest: str
    made_by: str
    """A digest of the build itself."""


def find_build(places: Iterable[Path] = PLACES) -> Build | None:
    for place in places:
        try:
            found = json.loads((place / MANIFEST).read_bytes())
            library = place / (LIBRARY + found["suffix"])
            modules, folders = frozenset(found["modules"]), tuple(found["folders"])
            return Build(library, found["suffix"], modules, folders, found["digest"], found["made_by"])
        except (FileNotFoundError, KeyError):
            continue  # there is none, or one that an earlier version has made
    return None


def problem_of(build: Build | None, root: Path = ROOT) -> str:
    """Return why a process can't take the binary; empty if it can."""
    if build is None:
        return "there is no build of them"
    if build.suffix != EXTENSION_SUFFIXES[0]:
        return f"they were built for another Python ({build.suffix})"
    if build.digest != digest(build.folders, root):
        return "they were built of other sources"
    return ""


def digest(folders: Iterable[str], root: Path = ROOT) -> str:
    """Return what changes with any source file below these folders, or one of these files, named as in a wheel."""
    import hashlib  # it loads OpenSSL, which a process without a build may not need

    found = hashlib.blake2b(digest_size=16)
    for folder in folders:
        plain = str(plain_path(folder, root))
        for full_path in _sources(plain):
            found.update(f"{folder}{full_path.removeprefix(plain)}\0".encode())
            with open(full_path, "rb") as source:
                found.update(source.read())
    return found.hexdigest()


def _sources(place: str) -> Iterator[str]:
    """Yield the source files below a folder, in an order that does not change, or the one that is meant."""
    if place.endswith(".py") and os.path.exists(place):
        yield place
    for path, names, files in os.walk(place):
        names.sort()
        for file in sorted(files):
            if file.endswith(".py"):
                yield f"{path}/{file}"


def plain_path(source: str, root: Path = ROOT) -> Path:
    """Return where a file is that a wheel has under this name: in a checkout services have folders of their own."""
    package, _, rest = source.partition("/")
    in_checkout = root / "services" / package.removeprefix("barnabas_") / package
    return in_checkout / rest if in_checkout.exists() else root / source


class _Loader(abc.Loader):
    """Makes compiled modules."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._library: ModuleType | None = None
        self._make: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make the module and execute it, as mypyc does it in one."""
        if self._library is None:
            self._make = self._load(LOADER).make
            self._library = self._load(LIBRARY)
        made: ModuleType = self._make(getattr(self._library, f"init_{_exported(spec.name)}"))
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Name the plain source, where mypyc names a file that is not there."""
        assert module.__spec__ is not None
        module.__file__ = module.__spec__.origin

    def _load(self, name: str) -> ModuleType:
        location = str(self._build.library)
        loader = ExtensionFileLoader(name, location)
        spec = spec_from_file_location(name, location, loader=loader)
        assert spec is not None
        module = sys.modules[name] = module_from_spec(spec)
        loader.exec_module(module)
        return module


def _exported(name: str) -> str:
    """Return mypyc's name for a module."""
    return name.replace("___", "___3_").replace(".", "___")


class _Finder:
    """Finds the modules of the binary before Python looks for the plain ones."""

    def __init__(self, build: Build) -> None:
        self._modules = build.modules
        self._loader = _Loader(build)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        spec = ModuleSpec(name, self._loader, origin=str(plain_path(name.replace(".", "/") + ".py")))
        spec.has_location = True
        return spec


_running = INTERPRETED


def running() -> str:
    """Return which cores this process runs, `compiled` or `interpreted`."""
    return _running


def cores_of_process(pid: int) -> str:
    """Return which cores another process of this user runs; empty if it has ended."""
    try:
        mapped = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""
    return COMPILED if LIBRARY in mapped else INTERPRETED


def select() -> None:
    """Decide it for this process, before a module of the cores is imported. Raises CoresRefused."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", COMPILED, INTERPRETED):
        raise CoresRefused(f"{VARIABLE} is {wanted!r}, neither {COMPILED} nor {INTERPRETED}")
    if wanted == INTERPRETED:
        return
    try:
        use(find_build())
    except CoresRefused as refused:
        if wanted == COMPILED:
            raise CoresRefused(
                f"{VARIABLE}={COMPILED}, but {refused}; `make compiled` makes them in a checkout"
            ) from None


def use(build: Build | None) -> None:
    """Have this process run a binary. Raises CoresRefused, with the reason, if it can't."""
    global _running
    problem = problem_of(build)
    if build is None or problem:
        raise CoresRefused(problem)
    sys.meta_path.insert(0, _Finder(build))
    _running = COMPILED
