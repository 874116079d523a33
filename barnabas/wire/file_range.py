"""FileRange: records that are named by their place in a file, instead of being copied out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from barnabas.wire.primitives import Buffer


@dataclass(slots=True, frozen=True)
class FileRange:
    """`length` bytes from `position` on of an open file, which stays open as long as it is referenced.

    A response may contain one in place of its records; the process that writes to the client's socket sends them from
    there. `file` belongs to that process's shell.
    """

    file: object
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def after(self, byte_count: int) -> FileRange:
        """Return what follows the first `byte_count` bytes."""
        return FileRange(self.file, self.position + byte_count, self.length - byte_count)


Records: TypeAlias = Buffer | FileRange
