"""A head start for the flushes of a clean stop."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from barnabas.ports.disk import Disk, DiskError


def begin_write_back(disk: Disk, log_dirs: Sequence[str]) -> threading.Thread:
    """Have the kernel write everything that it holds of the directories' volumes, in the background.

    Leadership is handed over meanwhile. Most logs have little left to write when they are flushed afterwards, which is
    what makes them durable, and tells of errors: of those that are met here too.
    """
    thread = threading.Thread(target=_write_back, args=(disk, log_dirs), name="write-back", daemon=True)
    thread.start()
    return thread


def _write_back(disk: Disk, log_dirs: Sequence[str]) -> None:
    for path in log_dirs:
        try:
            if disk.is_one_volume(path, []):
                disk.flush_volume(path)
        except DiskError:
            continue
