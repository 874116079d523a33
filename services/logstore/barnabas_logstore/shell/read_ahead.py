"""ReadAhead: bring into the page cache what readers of cold files will read next.

The kernel reads ahead too, but for one reader of a file and by little (128 KiB, unless configured), and what it has not
read yet is waited for. Consumers of a backlog read on where they stopped: after a read that had to wait for the disk,
what follows it is requested, and again whenever half of that is used up. A file that is in the page cache anyway costs
one check of its last byte for each read.

Safe to use from several threads at once.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from typing import Final

from barnabas_logstore.shell.open_files import PosixFile

READ_AHEAD_BYTES: Final = 4 << 20
"""For each reader: a few fetches of one partition (max.partition.fetch.bytes is 1 MiB)."""
_REQUEST_BYTES: Final = 128 << 10
"""The kernel reads no more than its own window for one request, which is this by default, or larger."""
_FILES_MAX: Final = 1024
_READERS_MAX: Final = 16
"""Of one file; more of them share what is read ahead for others, or wait for the disk."""


class ReadAhead:
    """Follows readers by where their reads end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: OrderedDict[str, list[int]] = OrderedDict()
        """Up to which positions has been read ahead, by path: one for each reader, the least recent first."""

    def request(self, file: PosixFile, position: int, *, was_cold: bool) -> None:
        """A read has ended at `position`, and had to wait for the disk if `was_cold`: begin to read what follows. Does
        not wait for it, except for space in the disk's queue.
        """
        begin, end = self._next(file.path, position, was_cold=was_cold)
        request_bytes(file, begin, end)

    def is_due(self, path: str, position: int) -> bool:
        """Return whether `request` has something to do after a read that did not wait for the disk."""
        return any(0 <= end - position <= READ_AHEAD_BYTES // 2 for end in self._ends.get(path, ()))

    def _next(self, path: str, position: int, *, was_cold: bool) -> tuple[int, int]:
        """Return from where to where to read ahead; nowhere if the two are equal."""
        with self._lock:
            ends = self._ends.get(path, [])
            for index, end in enumerate(ends):
                if 0 <= end - position <= READ_AHEAD_BYTES:
                    if end - position > READ_AHEAD_BYTES // 2:
                        return end, end
                    del ends[index]
                    break
            else:
                if not was_cold:
                    return position, position
                end = position
            self._ends[path] = [*ends[-_READERS_MAX + 1 :], position + READ_AHEAD_BYTES]
            self._ends.move_to_end(path)
            if len(self._ends) > _FILES_MAX:
                self._ends.popitem(last=False)
            return end, position + READ_AHEAD_BYTES


def request_bytes(file: PosixFile, begin: int, end: int) -> None:
    """Have the kernel begin to read these bytes, all at once rather than one window after the other. Errors show
    when they are read.
    """
    with contextlib.suppress(OSError):
        for position in range(begin, end, _REQUEST_BYTES):
            os.posix_fadvise(file.descriptor, position, min(_REQUEST_BYTES, end - position), os.POSIX_FADV_WILLNEED)


def is_cached(file: PosixFile, position: int) -> bool:
    """Return whether the page cache has the byte at `position`; True if the file ends before it."""
    try:
        os.preadv(file.descriptor, [bytearray(1)], position, os.RWF_NOWAIT)
    except OSError:
        return False
    return True
