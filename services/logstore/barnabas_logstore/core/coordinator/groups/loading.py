"""Reading a partition of `__consumer_offsets` from its beginning, a bounded piece at a time.

Transactional commits (another cluster's log may have them) wait by producer until their marker is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

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
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitValue,
    read_record,
)
from barnabas_logstore.core.coordinator.groups.registry import Groups, drop_offset, put_offset
from barnabas_logstore.core.coordinator.groups.stored_groups import restored_group

RECORDS_PER_STEP: Final = 200
_COMMIT_MARKER: Final = b"\x00\x00\x00\x01"

_Key: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""


class Loader:
    """Brings what a log says into `groups`, from its first batch to `end_offset`."""

    def __init__(self, groups: Groups, decompress: Decompress, end_offset: int, wall_ms: int) -> None:
        self._groups = groups
        self._decompress = decompress
        self._end_offset = end_offset
        self._wall_ms = wall_ms
        self._records: Iterator[None] | None = None
        """What is left of the data that has been read."""
        self._open_transactions: dict[int, dict[_Key, tuple[int, OffsetCommitValue]]] = {}
        """By producer id: what it commits if it does, with the offsets of the records."""
        self.is_reading = False
        """More has been asked of the log."""
        self.next_offset = 0
        """Where to read next."""
        self.unreadable_records = 0

    @property
    def is_done(self) -> bool:
        return self._records is None and self.next_offset >= self._end_offset

    @property
    def has_data(self) -> bool:
        return self._records is not None

    def feed(self, data: memoryview, next_offset: int) -> None:
        """Whole batches, as they were asked for; without any the log is at its end."""
        assert self._records is None
        assert self.is_reading
        self.is_reading = False
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
            if opened is not None:
                return decode_payload(header, opened)
        except MalformedFrame:
            pass
        self.unreadable_records += header.records_count
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
            self._apply_group(key.group, value)
            return
        assert not isinstance(value, GroupMetadataValue)
        if header.is_transactional and value is not None:
            waiting = self._open_transactions.setdefault(header.producer_id, {})
            waiting[key.group, key.topic, key.partition] = record.offset, value
        else:
            self._apply_offset((key.group, key.topic, key.partition), value, record.offset)

    def _apply_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """What is committed for a group is its own matter: it outlives its members."""
        known = self._groups.get(group_id)
        if value is not None:
            group = restored_group(group_id, value, self._groups.steps)
            group.offsets = {} if known is None else known.offsets
            self._groups.put(group)
        elif known is not None:
            self._groups.remove(group_id)
            if known.offsets:
                self._groups.get_or_add(group_id, self._wall_ms).offsets = known.offsets

    def _apply_offset(self, key: _Key, value: OffsetCommitValue | None, offset: int) -> None:
        """The newest record counts: what a transaction wrote before it is of no use to anybody when that commits."""
        for waiting in self._open_transactions.values():
            if key in waiting and waiting[key][0] < offset:
                del waiting[key]
        group_id, topic, partition = key
        if value is not None:
            put_offset(self._groups.get_or_add(group_id, self._wall_ms), topic, partition, value)
            return
        group = self._groups.get(group_id)
        if group is not None:
            drop_offset(group, topic, partition)
            self._groups.remove_if_unused(group)

    def _end_transaction(self, producer_id: int, marker: Record) -> None:
        """A marker's key is a version and a type, 0 for abort and 1 for commit."""
        waiting = self._open_transactions.pop(producer_id, {})
        if marker.key == _COMMIT_MARKER:
            for key, (offset, value) in waiting.items():
                self._apply_offset(key, value, offset)
