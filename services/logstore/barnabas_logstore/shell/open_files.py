"""The files that a disk keeps open, and the mappings: the least recently used are closed first.

A partition has three files per segment. Ten thousand partitions would hold thirty thousand descriptors for files most
of which are not used for hours, so only this module keeps any open: all others request a file by its path.

A file that has been written since its last flush always stays open. The kernel reports a page that could not be written
back to processes that have the file open; after closing and reopening, the report may be lost ("fsyncgate").
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from barnabas.ports.disk import Buffer, DiskFile
from barnabas.runtime.lane import Descriptor

FILES_MAX = 4096
# Each uses one more descriptor, which Python duplicates for it.
MAPPINGS_MAX = 512
# Opening one file closes so many at most, so that what was opened beyond the limit goes back without a pause.
CLOSED_AT_ONCE = 2
# For when the process may open no more files, and all open ones have unflushed writes.
FLUSHED_AT_ONCE = 64


class PosixFile:
    """A descriptor that closes with its last reference: no worker finds it closed, or reused, while using it."""

    __slots__ = ("__weakref__", "_path", "descriptor", "is_unflushed")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self.descriptor = descriptor
        self.is_unflushed = False

    @property
    def path(self) -> str:
        return self._path

    def __del__(self) -> None:
        os.close(self.descriptor)


def read_only(file: object) -> Descriptor:
    """Return another descriptor of the same file, whatever its name is now, by which it can only be read. Raises
    OSError.
    """
    assert isinstance(file, PosixFile), "a file of another disk"
    return Descriptor(os.open(f"/proc/self/fd/{file.descriptor}", os.O_RDONLY | os.O_CLOEXEC))


class OpenFiles:
    """Safe to use from several threads at once."""

    def __init__(self, files_max: int) -> None:
        self._files_max = files_max
        self._lock = threading.Lock()
        self._files: dict[str, PosixFile] = {}
        self._closable: OrderedDict[str, None] = OrderedDict()
        """Those without unflushed writes, the least recently used first."""
        self._mappings: OrderedDict[str, Buffer] = OrderedDict()
        # The same files by directory: a renamed directory takes its files along.
        self._by_directory: dict[str, dict[str, None]] = {}
        self.names_changed = 0
        """Counts calls of `forget`: compare it before and after opening a file, as its name may change meanwhile."""

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> PosixFile | None:
        with self._lock:
            file = self._files.get(path)
            if path in self._closable:
                self._closable.move_to_end(path)
            return file

    def keep(self, file: PosixFile, names_changed: int) -> PosixFile:
        """Return the file to use: `file`, or the same one that another thread has opened meanwhile.

        `names_changed` is its value from before the file was opened.
        """
        with self._lock:
            if names_changed != self.names_changed:
                return file
            kept = self._files.setdefault(file.path, file)
            if kept is file:
                self._by_directory.setdefault(os.path.dirname(file.path), {})[file.path] = None
                # Before this one can be closed: it was opened to be used.
                self._close_too_many()
                if not file.is_unflushed:
                    self._closable[file.path] = None
            return kept

    def _close_too_many(self) -> None:
        for _ in range(CLOSED_AT_ONCE):
            if len(self._files) <= self._files_max or not self._closable:
                return
            self._drop(next(iter(self._closable)))

    def close_unused(self, flush: Callable[[PosixFile], None]) -> None:
        """Close everything that may be closed; if nothing may, some files are flushed first, which may raise.

        Ten thousand partitions that are written to and, as is Kafka's default, never flushed would reach any limit.
        """
        with self._lock:
            closable = list(self._closable)
            oldest = [] if closable else list(islice(self._files.values(), FLUSHED_AT_ONCE))
        for file in oldest:
            flush(file)
        with self._lock:
            for path in [*closable, *(file.path for file in oldest)]:
                # It may have been written to meanwhile.
                if path in self._closable:
                    self._drop(path)
            self._mappings.clear()

    def forget(self, path: str) -> None:
        """From now on this name means nothing, or something else: a file's, or a directory's with all its files."""
        with self._lock:
            self.names_changed += 1
            self._drop(path)
            for inside in list(self._by_directory.get(path, ())):
                self._drop(inside)

    def _drop(self, path: str) -> None:
        self._mappings.pop(path, None)
        self._closable.pop(path, None)
        if self._files.pop(path, None) is not None:
            directory = os.path.dirname(path)
            names = self._by_directory[directory]
            del names[path]
            if not names:
                del self._by_directory[directory]

    def changing(self, file: DiskFile) -> None:
        """The content of `file` is about to change."""
        assert isinstance(file, PosixFile)
        if not file.is_unflushed:
            with self._lock:
                file.is_unflushed = True
                if self._files.get(file.path) is file:
                    self._closable.pop(file.path, None)
        self.emptying(file)

    def emptying(self, file: DiskFile) -> None:
        """The content of `file` is about to be removed: no page of it is left that could fail to be written back."""
        if file.path in self._mappings:
            with self._lock:
                self._mappings.pop(file.path, None)

    def flushing(self, file: DiskFile) -> None:
        assert isinstance(file, PosixFile)
        with self._lock:
            file.is_unflushed = False
            if self._files.get(file.path) is file:
                self._closable[file.path] = None

    # --- mappings ---

    def mapping(self, path: str) -> Buffer | None:
        with self._lock:
            mapping = self._mappings.get(path)
            if mapping is not None:
                self._mappings.move_to_end(path)
            return mapping

    def keep_mapping(self, path: str, mapping: Buffer) -> None:
        """Map a file that does not change until `changing` or `forget` is called for it."""
        with self._lock:
            self._mappings[path] = mapping
            if len(self._mappings) > MAPPINGS_MAX:
                self._mappings.popitem(last=False)
