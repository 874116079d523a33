"""The disk, as the cores see it: named files, positions, and an explicit distinction between written and durable.

`barnabas_logstore.shell.posix_disk` is the real one; the simulation's loses what was not flushed. Paths are absolute
strings with `/` between their parts. Every operation may raise `DiskError`, and nothing else that a caller has to
handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class DiskErrorKind(Enum):
    """The kind of failure, by errno; everything that is not listed is an I/O error."""

    NOT_FOUND = "ENOENT"
    NO_SPACE = "ENOSPC"
    TOO_MANY_FILES = "EMFILE"
    READ_ONLY = "EROFS"
    PERMISSION = "EACCES"
    IO = "EIO"


class DiskError(Exception):
    """An operation on `path` failed. The caller decides how far the damage reaches: mostly the whole log directory."""

    def __init__(self, kind: DiskErrorKind, operation: str, path: str) -> None:
        """`operation` begins with "flush" for those that make something durable, and for no other."""
        super().__init__(f"{operation} {path}: {kind.value}")
        self.kind = kind
        self.operation = operation
        self.path = path

    @property
    def is_lack_of_room(self) -> bool:
        """Whether only space is lacking, and nothing is broken. A flush that fails is another matter, for any reason:
        what it should have made durable may be lost.
        """
        return self.kind is DiskErrorKind.NO_SPACE and not self.operation.startswith("flush")


class DiskFile(Protocol):
    """An open file. It stays open while it is referenced (for example by a read in progress), even when removed or
    renamed.
    """

    @property
    def path(self) -> str:
        """The path at which it was opened; a rename does not change it."""
        ...


@dataclass(slots=True, frozen=True)
class DirectoryEntry:
    name: str
    byte_count: int
    is_directory: bool


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing. `create` creates an empty file if there is none; without it NOT_FOUND.

        Cheap for what has been opened before: the disk keeps files open as it sees fit. So callers hold a file only
        while they use it.
        """
        ...

    def opened(self, path: str) -> DiskFile | None:
        """Return the file if the disk keeps it open: what `open` would return, without waiting for anything."""
        ...

    def size(self, file: DiskFile) -> int: ...

    def read_at(self, file: DiskFile, position: int, length: int) -> bytes:
        """Return the bytes at `position`: fewer than `length` only if the file ends."""
        ...

    def load(self, file: DiskFile, position: int, length: int) -> int:
        """Bring these bytes into the page cache, unless they are there; return how many of them the file has."""
        ...

    def map(self, file: DiskFile) -> Buffer:
        """Return the whole present content, read only; pages are read from the disk as they are accessed. For files
        that don't change.
        """
        ...

    def write_at(self, file: DiskFile, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after the other. On an error any part of them may be on the disk."""
        ...

    def truncate(self, file: DiskFile, byte_count: int) -> None: ...

    def flush(self, file: DiskFile) -> None:
        """Make the content durable (fdatasync). After an error no unflushed data may be trusted: never call it
        again.
        """
        ...

    def flush_directory(self, path: str) -> None:
        """Make creations, renames and removals inside `path` durable."""
        ...

    def watch_volume(self, path: str) -> None:
        """Start using a directory: `flush_volume` reports everything of its volume that can't be written back from here
        on.
        """
        ...

    def is_one_volume(self, path: str, directories: Sequence[str]) -> bool:
        """Whether `flush_volume` of `path`, which is watched, covers these directories."""
        ...

    def flush_volume(self, path: str) -> None:
        """Make everything on the volume of `path` durable, contents and names. An error may be about any file, at any
        time since `watch_volume`, and no unflushed data may be trusted after it.
        """
        ...

    def read_file(self, path: str) -> bytes:
        """Return the content of a small file."""
        ...

    def write_file(self, path: str, content: bytes) -> None:
        """Write the whole content of a small file, which the caller writes again before flushing it: so nothing has to
        keep it open until then.
        """
        ...

    def replace_file(self, path: str, content: bytes) -> None:
        """Put `content` at `path` atomically and durably: a temporary file, flush, rename, flush of the directory."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def exists(self, path: str) -> bool: ...

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written, by the wall clock."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Return (total, usable) bytes of the volume that contains `path`."""
        ...

    def list(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory, sorted by name."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory; an existing one is fine.

        Its parent must exist: if a disk is not mounted any more, nothing must be written in its place.
        """
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...
