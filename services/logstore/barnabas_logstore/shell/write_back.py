"""Start writing dirty pages before the flushes of a clean stop."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from barnabas.ports.disk import Disk, DiskError
from barnabas.runtime.loop.background import start_thread
from barnabas_logstore.shell.containment import WRITE_BACK


def begin_write_back(disk: Disk, log_dirs: Sequence[str]) -> threading.Thread:
    """Make the kernel write everything that it holds of the directories' volumes, in the background.

    Leadership is handed over meanwhile. Most logs have little left to write when they are flushed afterwards, which is
    what makes them durable and reports errors, including those that occur here.
    """
    return start_thread(WRITE_BACK, partial(_write_back, disk, log_dirs), "write-back")


def _write_back(disk: Disk, log_dirs: Sequence[str]) -> None:
    for path in log_dirs:
        try:
            if disk.is_one_volume(path, []):
                disk.flush_volume(path)
        except DiskError:
            continue
