"""Which modules are compiled, and a copy of all packages in which their dataclasses are written out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from barnabas.cores import ROOT
from scripts.compiled.codecs import FREQUENT_MODULES, codecs_text
from scripts.compiled.constructors import open_to_subclasses, write_out

PACKAGES = {
    "barnabas": "barnabas",
    "barnabas_cli": "cli/barnabas_cli",
    "barnabas_protos": "protos/barnabas_protos",
    **{
        f"barnabas_{role}": f"services/{role}/barnabas_{role}"
        for role in ("controller", "gateway", "logstore", "purgatory")
    },
}
COMPILED = (
    "barnabas/channel",
    "barnabas/ports",
    "barnabas/wire",
    "barnabas_gateway/core",
    "barnabas_logstore/core",
    "barnabas_purgatory/core",
)
"""Folders, in the layout of a wheel. The controller's core is not in the way of a request, and a fifth of a build."""

COMPILED_FILES = (
    "barnabas/cluster/image.py",
    "barnabas/cluster/topic_config.py",
    "barnabas/containment.py",
    "barnabas/metrics/histogram.py",
    "barnabas/runtime/clock.py",
    "barnabas/runtime/collector.py",
    "barnabas/runtime/conversation.py",
    "barnabas/runtime/loop/busy_poll.py",
    "barnabas/runtime/loop/input_selector.py",
    "barnabas/runtime/lane.py",
    "barnabas_gateway/shell/client_socket.py",
    "barnabas_gateway/shell/driver.py",
    "barnabas_logstore/shell/data_listener.py",
    "barnabas_logstore/shell/driver.py",
    "barnabas_logstore/shell/io_meter.py",
    "barnabas_logstore/shell/io_workers.py",
)
"""What of the shells runs for each request: the other files beside them are not compiled."""

INTERPRETED = {
    "barnabas/wire/api_keys.py": "an enum with a __new__: it makes its members before mypyc has the class",
    "barnabas/wire/errors.py": "an enum with a __new__",
    "barnabas/wire/file_range.py": "a dataclass's field of exactly `object` is a KeyError at import",
    "barnabas/wire/messages": "codecs of all but the frequent ones are made when they are first used, and interpreted",
    "barnabas/wire/decoding.py": "it executes what it makes",
    "barnabas/wire/encoding.py": "it executes what it makes",
    "barnabas/wire/source.py": "it executes what it makes",
    "barnabas_logstore/core/storage/compaction/orders.py": "msgspec decodes its classes by their annotations",
    "barnabas_logstore/core/coordinator/groups/records.py": "the schema of a codec",
    "barnabas_logstore/core/coordinator/transactions/records.py": "the schema of a codec",
}
"""What of these stays interpreted, and why. Frequent messages are compiled nonetheless."""


SEEN = (*COMPILED, *COMPILED_FILES, "barnabas/cluster", "barnabas/metrics")
"""What compiled modules import: the binary has numbers and texts of it."""


@dataclass(slots=True, frozen=True)
class Additions:
    """What a binary for tests has besides. The product's has none."""

    rewrite: Callable[[str, str], str]
    """From the path of a compiled module, as a wheel has it, and its text to the text that is compiled."""
    module: str
    """The path of a compiled module of its own."""
    text: str
    made_by: str
    """It changes with all that they do."""


def compiled_files(copy: Path) -> list[str]:
    """Return the files to compile, relative to the copy."""
    found = [path.relative_to(copy) for folder in COMPILED for path in (copy / folder).rglob("*.py")]
    found += map(Path, COMPILED_FILES)
    return sorted(str(path) for path in found if not _is_interpreted(path))


def product_files() -> dict[str, Path]:
    """Return all modules of the product, but generated ones of protobuf, by their path in a wheel."""
    return {
        str(Path(package) / path.relative_to(ROOT / folder)): path
        for package, folder in PACKAGES.items()
        if package != "barnabas_protos"
        for path in (ROOT / folder).rglob("*.py")
    }


def compiled_modules() -> frozenset[str]:
    """Return the names of the modules that are compiled."""
    return frozenset(
        file.removesuffix(".py").replace("/", ".")
        for file in product_files()
        if any(Path(file).is_relative_to(each) for each in (*COMPILED, *COMPILED_FILES))
        and not _is_interpreted(Path(file))
    )


def _is_interpreted(path: Path) -> bool:
    """A package's own file has nothing that takes time."""
    if str(path) in FREQUENT_MODULES:
        return False
    return path.name == "__init__.py" or any(str(each) in INTERPRETED for each in (path, *path.parents))


def copy_sources(copy: Path, additions: Additions | None = None) -> None:
    """Make the copy as it has to be now. What has not changed keeps its time, so that caches hold."""
    wanted: set[Path] = set()
    if additions is not None:
        wanted.add(copy / additions.module)
        _write(copy / additions.module, additions.text)
    for package, folder in PACKAGES.items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".pyi", ".typed"):
                wanted.add(copy / package / path.relative_to(ROOT / folder))
                _copy(path, copy / package / path.relative_to(ROOT / folder), copy, additions)
    for path in copy.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()


def _copy(path: Path, target: Path, copy: Path, additions: Additions | None) -> None:
    text = path.read_text()
    relative = target.relative_to(copy)
    is_compiled = any(relative.is_relative_to(each) for each in (*COMPILED, *COMPILED_FILES))
    is_compiled = is_compiled and not _is_interpreted(relative)
    if is_compiled and path.suffix == ".py":
        text = write_out(text, str(path.relative_to(ROOT)))
        if str(relative) == "barnabas/wire/schema.py":
            text = open_to_subclasses(text, ("Request", "Response"))
        if str(relative) == "barnabas/wire/frequent_codecs.py":
            text += codecs_text()
        if additions is not None:
            text = additions.rewrite(str(relative), text)
    if _write(target, text):
        shutil.copymode(path, target)


def _write(target: Path, text: str) -> bool:
    """Return whether it was not written already."""
    if target.exists() and target.read_text() == text:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return True
