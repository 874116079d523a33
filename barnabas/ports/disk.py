"""The disk, as the cores see it: named files, positions, and an explicit line between written and durable.

`barnabas_logstore.shell.posix_disk` is the real one; the simulation's loses what was not flushed. Paths are absolute
strings with `/` between their parts. Every operation may raise `DiskError`, and nothing else that a caller needs to
know of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class DiskErrorKind(Enum):
    """What went wrong, by the errno that named it; everything that is not listed is an I/O error."""

    NOT_FOUND = "ENOENT"
    NO_SPACE = "ENOSPC"
    TOO_MANY_FILES = "EMFILE"
    READ_ONLY = "EROFS"
    PERMISSION = "EACCES"
    IO = "EIO"


class DiskError(Exception):
    """An operation on `path` failed. The caller decides how far the damage goes: mostly the whole log directory."""

    def __init__(self, kind: DiskErrorKind, operation: str, path: str) -> None:
        """`operation` begins with "flush" for those that make something durable, and for no other."""
        super().__init__(f"{operation} {path}: {kind.value}")
        self.kind = kind
        self.operation = operation
        self.path = path

    @property
    def is_lack_of_room(self) -> bool:
        """Nothing is broken, there is only no room. A flush that fails is another matter, for whatever reason: what it
        should have made durable may be gone.
        """
        return self.kind is DiskErrorKind.NO_SPACE and not self.operation.startswith("flush")


class DiskFile(Protocol):
    """An open file. It stays open while anybody holds it (a read under way included), even when removed or renamed."""

    @property
    def path(self) -> str:
        """The path it was opened at; a rename does not change it."""
        ...


@dataclass(slots=True, frozen=True)
class DirectoryEntry:
    name: str
    byte_count: int
    is_directory: bool


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing. `create` makes an empty file where none is; without it NOT_FOUND.

        Cheap for what has been opened before: the disk keeps as many files open as is good. So nobody holds a file
        for longer than it takes to use it.
        """
        ...

    def size(self, file: DiskFile) -> int: ...

    def read_at(self, file: DiskFile, position: int, length: int) -> bytes:
        """The bytes at `position`: fewer than `length` only where the file ends."""
        ...

    def map(self, file: DiskFile) -> Buffer:
        """The whole content as it is now, read only; pages come from the disk as they are touched. For files that
        stay as they are.
        """
        ...

    def write_at(self, file: DiskFile, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after the other. On an error any part of them may be on the disk."""
        ...

    def truncate(self, file: DiskFile, byte_count: int) -> None: ...

    def flush(self, file: DiskFile) -> None:
        """Make the content durable (fdatasync). After an error nothing unflushed may be trusted: never call it
        again.
        """
        ...

    def flush_directory(self, path: str) -> None:
        """Make creations, renames and removals inside `path` durable."""
        ...

    def watch_volume(self, path: str) -> None:
        """A directory is taken into use: whatever of its volume can't be written back from here on, `flush_volume`
        tells of.
        """
        ...

    def is_one_volume(self, path: str, directories: Sequence[str]) -> bool:
        """Whether `flush_volume` of `path`, which is watched, does for what is in these directories."""
        ...

    def flush_volume(self, path: str) -> None:
        """Make everything on the volume of `path` durable, contents and names. An error is one of any file, at any time
        since `watch_volume`, and nothing unflushed may be trusted after it.
        """
        ...

    def read_file(self, path: str) -> bytes:
        """A small file, whole."""
        ...

    def replace_file(self, path: str, content: bytes) -> None:
        """Put `content` at `path` atomically and durably: a temporary file, flush, rename, flush of the directory."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def exists(self, path: str) -> bool: ...

    def modified_ms(self, path: str) -> int:
        """When a file was written last, by the wall clock."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume that holds `path`."""
        ...

    def list(self, path: str) -> list[DirectoryEntry]:
        """The entries of a directory, sorted by name."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory; one that exists already is fine.

        Its parent has to be there: where a disk is not mounted any more, nothing is to be written in its place.
        """
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...
