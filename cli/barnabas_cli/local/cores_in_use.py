"""Which cores the processes of a cluster run, and which ones they would run if they were started now."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from barnabas.cores import INTERPRETED, LIBRARY, PLACES, ROOT, find_build, problem_of

COMPILED_CORES, PLAIN_MODULES = "the compiled cores", "plain modules"


def library_to_take(wanted: str, places: Iterable[Path] = PLACES, root: Path = ROOT) -> Path | None:
    """Return the binary that a process takes which starts with this in BARNABAS_CORES; None if it runs the plain
    modules.
    """
    if wanted == INTERPRETED:
        return None
    build = find_build(places)
    return None if build is None or problem_of(build, root) else build.library


def runs_other_cores(pid: int, library: Path | None) -> bool:
    """Return whether a process of this user runs other cores than this binary, or than plain modules if that is None.

    The kernel names a mapped file that was replaced or deleted as such, so a binary of earlier sources is another one.
    """
    try:
        mapped = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
    except OSError:
        return False  # it has ended
    return libraries_of(mapped) != (set() if library is None else {os.path.realpath(library)})


def libraries_of(mapped: str) -> set[str]:
    """Return the binaries that /proc/<pid>/maps lists, each as it is named there."""
    lines = (line.split(maxsplit=5) for line in mapped.splitlines())
    return {fields[5] for fields in lines if len(fields) == 6 and LIBRARY in os.path.basename(fields[5])}


def name_of(library: Path | None) -> str:
    return PLAIN_MODULES if library is None else COMPILED_CORES
