"""Flushing a file system as a whole (syncfs), where the kernel tells of everything that goes wrong with it.

That is a clean stop's way to make thousands of logs durable. Linux has noted per file system that something could not
be written back since 5.8, and passed on what the file system itself says of its journal since 5.17. Both are told to a
descriptor once, if it was open when it happened: so each directory's is opened before anything is written there, and
nobody else here asks with another one. File systems in layers tell of their own errors only, not of those below.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from typing import Final

from barnabas_logstore.shell.open_files import PosixFile

_TELLS_OF_ERRORS: Final = (5, 17)
# The magic numbers of statfs(2): ext4, XFS, Btrfs.
_SOUND_FILE_SYSTEMS: Final = (0xEF53, 0x58465342, 0x9123683E)
# Larger than struct statfs on any architecture; it begins with the type, a long.
_STATFS_BYTES: Final = 512

_libc = ctypes.CDLL(None, use_errno=True)


class Volumes:
    """Safe to use from several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._directories: dict[str, PosixFile] = {}
        self._errors: dict[str, OSError] = {}

    def watch(self, path: str) -> None:
        """Raises OSError."""
        if path not in self._directories:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._directories[path] = PosixFile(path, descriptor)

    def is_one(self, path: str, directories: Sequence[str]) -> bool:
        """Whether `flush` of `path` does for these directories. Raises OSError."""
        directory = self._directories.get(path)
        if directory is None or _kernel() < _TELLS_OF_ERRORS:
            return False
        if _file_system(directory.descriptor) not in _SOUND_FILE_SYSTEMS:
            return False
        device = os.fstat(directory.descriptor).st_dev
        # One of them may be a link, or have something mounted on it.
        return all(os.stat(each).st_dev == device for each in directories)

    def flush(self, path: str) -> None:
        """Raises OSError, from the first time on for good: the kernel tells of an error only once."""
        with self._lock:
            if path in self._errors:
                raise self._errors[path]
            if _libc.syncfs(self._directories[path].descriptor) != 0:
                code = ctypes.get_errno()
                error = self._errors[path] = OSError(code, os.strerror(code))
                raise error


def _kernel() -> tuple[int, int]:
    """(6, 1) of 6.1.0-13-amd64; (0, 0) where there is no telling."""
    major, _, rest = os.uname().release.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _file_system(descriptor: int) -> int:
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(descriptor, buffer) != 0:
        return 0
    return ctypes.c_ulong.from_buffer(buffer).value
