"""`.txnindex`: the aborted transactions whose markers are in a segment, by which `read_committed` consumers leave their
records out.

Kafka's format: entries of 34 bytes, in the order of the markers: version, producer id, first and last offset of the
transaction (its marker's), and the last stable offset after it. A segment without aborted transactions has no such
file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import ClassVar

from barnabas.ports.disk import Buffer, Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage.effect_results import AbortedInFile, AbortedTransaction, FoundAborted
from barnabas_logstore.core.storage.effects import EndOfRecords, FindAbortedEffect
from barnabas_logstore.core.storage.segment.index_file import IndexFile
from barnabas_logstore.core.storage.segment.offset_index import OffsetIndex

TRANSACTION_INDEX_SUFFIX = ".txnindex"

_ENTRY = struct.Struct(">hqqqq")
_LAST_OFFSET = struct.Struct(">q")
_LAST_OFFSET_AT = 18
_VERSION = 0
_OFFSET_MAX = 2**63 - 1


def parse_transaction_index(content: Buffer) -> list[AbortedTransaction]:
    """Return the complete entries of the known version; a torn one at the end is ignored."""
    return list(_entries_of(content, 0))


def format_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


class TransactionIndex(IndexFile):
    entry_format: ClassVar[struct.Struct] = _ENTRY
    is_optional: ClassVar[bool] = True

    def append(self, aborted: AbortedTransaction) -> None:
        self._add(_ENTRY.pack(_VERSION, *aborted))

    def ending_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the transactions whose markers are at `offset` or later."""
        entries, size = self._entries, _ENTRY.size
        count = bisect_left(
            range(len(entries) // size),
            offset,
            key=lambda index: _LAST_OFFSET.unpack_from(entries, index * size + _LAST_OFFSET_AT)[0],
        )
        return _entries_of(entries, count * size)

    def content_below(self, offset: int) -> bytes:
        """Return the entries of the transactions whose markers are below `offset`."""
        entries = parse_transaction_index(self._entries)
        return format_transaction_index(entry for entry in entries if entry.last_offset < offset)


class AbortedInSegment:
    """The index of one segment: in memory while the segment is active, and until its entries are in the file."""

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        """A file may exist at `path`, or not."""
        self._disk = disk
        self.path = path
        self._base_offset = base_offset
        self.index: TransactionIndex | None = None
        """The entries in memory, if there are any; changed only by this."""
        self.first_offset_min = self.last_stable_offset_max = -1
        """What is known of the entries in the file: the first offset of any of their transactions, and the last stable
        offset after the last; -1: nothing is known.
        """
        self.may_exist = True

    def relocate(self, path: str) -> None:
        """The file, if there is one, is at `path` from now on."""
        self.path = path
        if self.index is not None:
            self.index.path = path

    def begin(self) -> None:
        """The segment is empty, and has no file yet."""
        self.index = None
        self.may_exist = False

    def learn(self, found: AbortedInFile | None) -> None:
        """The file has been read; None: there is none."""
        if found is None:
            self.may_exist = False
            self.first_offset_min = _OFFSET_MAX
        else:
            self.first_offset_min, self.last_stable_offset_max = found.first_offset_min, found.last_stable_offset_max

    def load(self) -> None:
        """Read the file into memory, if there is one. Raises DiskError."""
        content = bytearray(self._content())
        del content[len(content) // _ENTRY.size * _ENTRY.size :]
        if content:
            self.index = TransactionIndex(self.path, self._base_offset, content)

    def release(self) -> None:
        """The file has all entries."""
        self.index = None

    def add(self, aborted: AbortedTransaction) -> None:
        if self.index is None:
            self.index = TransactionIndex(self.path, self._base_offset, bytearray())
            self.may_exist = True
        self.index.append(aborted)

    def ending_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the transactions whose markers are at `offset` or later. Raises DiskError."""
        index = self.index
        if index is None:
            if not self.may_exist:
                return iter(())
            index = TransactionIndex(self.path, self._base_offset, self._content())
        return index.ending_from(offset)

    def content_below(self, offset: int) -> bytes | None:
        """Return what the file is to contain without the transactions that end at `offset` or later; None: there is no
        file. Raises DiskError.
        """
        content = self._content() if self.may_exist else b""
        return TransactionIndex(self.path, self._base_offset, content).content_below(offset) if content else None

    @property
    def paths(self) -> list[str]:
        """The file, if it has entries in memory."""
        return [] if self.index is None else [self.path]

    def save(self) -> None:
        """Write what the file lacks, at once. Raises DiskError."""
        unsaved = None if self.index is None else self.index.take_unsaved()
        if unsaved is not None:
            self._disk.write_at(self._disk.open(self.path, create=True), unsaved.position, (unsaved.content,))

    def cut(self, entries_max: int) -> None:
        """Drop the entries past the first `entries_max`. The file is taken for empty."""
        if self.index is not None:
            self.index.cut(entries_max)
            if not entries_max:
                self.index = None

    def remove(self) -> None:
        """Remove the file, if there is one. Raises DiskError."""
        if self.may_exist and self._disk.exists(self.path):
            self._disk.remove(self.path)
        self.begin()

    def _content(self) -> Buffer:
        content = _content_of(self._disk, self.path) if self.may_exist else None
        self.may_exist = content is not None
        return content or b""


def _entries_of(content: Buffer, position: int) -> Iterator[AbortedTransaction]:
    whole = len(content) // _ENTRY.size * _ENTRY.size
    for at in range(position, whole, _ENTRY.size):
        version, *fields = _ENTRY.unpack_from(content, at)
        if version == _VERSION:
            yield AbortedTransaction(*fields)


def find_aborted(disk: Disk, effect: FindAbortedEffect) -> FoundAborted:
    """Carry out the effect. Raises DiskError."""
    upto_offset = effect.upto_offset if effect.end is None else _end_offset(disk, effect.end, effect.upto_offset)
    files: list[AbortedInFile | None] = []
    for path in effect.paths:
        content = _content_of(disk, path)
        if content is None:
            files.append(None)
            continue
        index = TransactionIndex(path, 0, content)
        aborted = [each for each in index.ending_from(effect.from_offset) if each.first_offset < upto_offset]
        first_offset_min = min((each.first_offset for each in _entries_of(content, 0)), default=_OFFSET_MAX)
        last_stable_offset_max = max((each.last_stable_offset for each in _entries_of(content, 0)), default=-1)
        files.append(AbortedInFile(aborted, first_offset_min, last_stable_offset_max))
        if last_stable_offset_max >= upto_offset:
            break
    return FoundAborted(files, upto_offset)


def _content_of(disk: Disk, path: str) -> Buffer | None:
    try:
        return disk.map(disk.open(path))
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        return None


def _end_offset(disk: Disk, end: EndOfRecords, default: int) -> int:
    content = _content_of(disk, end.index_path)
    if not content:
        return default
    index = OffsetIndex(end.index_path, end.base_offset, content)
    return min(index.offset_from(end.position, default), default) if index.belongs_to(end.byte_count) else default
