"""At most one build at a time writes to build/compiled, and one beside a cluster gives way to one that is asked for.

The lock is the kernel's, so that a build that dies leaves none: it is held until no process has the descriptor open.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK, STOP = "compiled.lock", "compiled.stop"
"""Files beside the folder of the build. While there is a STOP, a build beside a cluster ends."""

STOP_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.05


def try_lock(folder: Path) -> int | None:
    """Return a descriptor that holds the lock, or None if a build is under way. `folder`: of the lock file."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    (folder / STOP).unlink(missing_ok=True)
    return descriptor


def should_end(folder: Path, descriptor: int) -> bool:
    """Return whether the build that holds the lock is to end: it was asked to, or the checkout was deleted."""
    try:
        is_same = os.path.samestat(os.stat(folder / LOCK), os.fstat(descriptor))
    except OSError:
        return True
    return not is_same or (folder / STOP).exists()


@contextmanager
def sole_build(folder: Path) -> Iterator[None]:
    """Hold the lock. A build beside a cluster ends for it, any other is waited for."""
    descriptor = try_lock(folder)
    if descriptor is None:
        print("compiled: another build is under way; one beside a cluster ends now, any other goes first", flush=True)
        while descriptor is None:
            (folder / STOP).touch()
            time.sleep(_POLL_SECONDS)
            descriptor = try_lock(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def end_build(folder: Path) -> bool:
    """End a build beside a cluster. Return whether one was under way and has ended."""
    if not (folder / LOCK).exists():
        return False
    descriptor, ended = try_lock(folder), False
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while descriptor is None and time.monotonic() < deadline:
        (folder / STOP).touch()
        time.sleep(_POLL_SECONDS)
        descriptor = try_lock(folder)
        ended = descriptor is not None
    (folder / STOP).unlink(missing_ok=True)  # what goes on was asked for, and does not look
    if descriptor is not None:
        os.close(descriptor)
    return ended
