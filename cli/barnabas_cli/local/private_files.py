"""Who may read what a local cluster writes: its owner alone.

Records, logs, configurations and sockets of a cluster hold what its clients send. Processes inherit the mask of the one
that starts them, so that all that services and their children create is 0600, directories 0700.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MASK: Final = 0o077


@contextmanager
def private_files() -> Iterator[None]:
    """Have this process, and those that it starts, create files that only their owner may read."""
    before = os.umask(_MASK)
    try:
        yield
    finally:
        os.umask(before)


def make_private(directory: Path) -> None:
    """Take away from everyone else what they may do with a directory and all that is in it. Raises OSError."""
    _take_away(directory)
    for folder, names, files in os.walk(directory):
        for name in (*names, *files):
            _take_away(Path(folder) / name)


def _take_away(path: Path) -> None:
    """Skip what a service that runs has removed meanwhile, and links, whose targets are not the cluster's."""
    try:
        found = path.lstat()
        if found.st_mode & _MASK and not stat.S_ISLNK(found.st_mode):
            path.chmod(stat.S_IMODE(found.st_mode) & ~_MASK)
    except FileNotFoundError:
        return
