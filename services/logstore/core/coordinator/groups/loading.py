"""Reading a partition of `__consumer_offsets` from its beginning, a bounded piece at a time.

Transactional commits (another cluster's log may have them) wait by producer until their marker is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Decompress
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Compression,
    Record,
    decode_payload,
    iterate_headers,
)
from services.logstore.core.coordinator.groups.group import Group
from services.logstore.core.coordinator.groups.offsets import Offsets
from services.logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    read_record,
)
from services.logstore.core.coordinator.groups.stored_groups import restored_group

RECORDS_PER_STEP: Final = 200
_COMMIT_MARKER: Final = b"\x00\x00\x00\x01"


class Loader:
    """Brings what a log says into `groups` and `offsets`, from its first batch to `end_offset`."""

    def __init__(
        self, groups: dict[str, Group], offsets: Offsets, decompress: Decompress, end_offset: int, wall_ms: int
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._decompress = decompress
        self._end_offset = end_offset
        self._wall_ms = wall_ms
        self._records: Iterator[None] | None = None
        """What is left of the data that has been read."""
        self._in_transactions: dict[int, dict[tuple[str, str, int], tuple[OffsetCommitKey, OffsetCommitValue | None]]]
        self._in_transactions = {}
        """By producer id: commits whose transaction is open."""
        self.next_offset = 0
        """Where to read next."""
        self.unreadable_records = 0

    @property
    def is_done(self) -> bool:
        return self._records is None and self.next_offset >= self._end_offset

    @property
    def wants_data(self) -> bool:
        return self._records is None and not self.is_done

    def feed(self, data: memoryview, next_offset: int) -> None:
        """Whole batches, as they were asked for; without any the log is at its end."""
        assert self._records is None
        self.next_offset = next_offset if len(data) else self._end_offset
        self._records = self._apply_all(data)

    def step(self) -> None:
        """A bounded piece of what has been fed."""
        if self._records is None:
            return
        for _ in range(RECORDS_PER_STEP):
            if next(self._records, self) is self:
                self._records = None
                return

    def _apply_all(self, data: memoryview) -> Iterator[None]:
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size_bytes]
            for record in self._records_of(header, batch[HEADER_BYTES:]):
                try:
                    self._apply(header, record)
                except MalformedFrame:
                    self.unreadable_records += 1
                yield

    def _records_of(self, header: BatchHeader, payload: memoryview) -> list[Record]:
        try:
            if header.compression == Compression.NONE:
                return decode_payload(header, payload)
            opened = self._decompress(header.compression, payload, DECOMPRESSED_BYTES_MAX)
            return [] if opened is None else decode_payload(header, opened)
        except MalformedFrame:
            self.unreadable_records += 1
            return []

    def _apply(self, header: BatchHeader, record: Record) -> None:
        if header.is_control:
            self._end_transaction(header.producer_id, record)
            return
        entry = read_record(record.key, record.value)
        if entry is None:
            return
        key, value = entry
        if isinstance(key, GroupMetadataKey):
            assert not isinstance(value, OffsetCommitValue)
            if value is None:
                self._groups.pop(key.group, None)
            else:
                self._groups[key.group] = restored_group(key.group, value)
            return
        assert value is None or isinstance(value, OffsetCommitValue)
        if header.is_transactional and value is not None:
            waiting = self._in_transactions.setdefault(header.producer_id, {})
            waiting[key.group, key.topic, key.partition] = key, value
        else:
            self._put(key, value)

    def _end_transaction(self, producer_id: int, marker: Record) -> None:
        """A marker's key is a version and a type, 0 for abort and 1 for commit."""
        waiting = self._in_transactions.pop(producer_id, {})
        if marker.key == _COMMIT_MARKER:
            for key, value in waiting.values():
                self._put(key, value)

    def _put(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        self._offsets.put(key, value)
        if value is not None and key.group not in self._groups:
            self._groups[key.group] = Group(key.group, self._wall_ms)
