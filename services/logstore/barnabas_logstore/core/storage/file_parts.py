"""The part of a segment's file that a read is for.

Where the file is open, the event loop knows where to begin, and reads in place what the page cache has. Otherwise the
worker that reads opens it, by its name, and looks into the index: on a cold disk each open takes as long as a seek, and
one fetch may read from the oldest segments of hundreds of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.ports.disk import DiskFile


@dataclass(slots=True, frozen=True)
class ClosedIndexes:
    """The files of a segment's indexes, which have all entries; the segment has `log_bytes`."""

    offset_index_path: str
    time_index_path: str
    base_offset: int
    log_bytes: int


@dataclass(slots=True, frozen=True)
class UnopenedFile:
    """A segment's file, to be opened by who reads it. What has the name then may be another segment's, if the log has
    changed since.

    `indexes` have to tell where the batches are; None: that is known.
    """

    path: str
    indexes: ClosedIndexes | None


@dataclass(slots=True, frozen=True)
class FilePart:
    """A part of a segment's file: a batch begins at `position`, and nothing at or past `end_position` may be read.

    No batch from `limit_offset` on may be read either, unless that is -1: one begins at `limit_position`, before the
    first of those. Both positions are 0 as long as an unopened file's indexes have to tell them.
    """

    file: DiskFile | UnopenedFile
    position: int
    end_position: int
    limit_offset: int = -1
    limit_position: int = 0
