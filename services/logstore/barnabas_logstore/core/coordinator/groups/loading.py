"""Read a partition of `__consumer_offsets`.

Transactional commits (another cluster's log may have them) wait by producer until their marker is read.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from barnabas.ports.compression import Decompress
from barnabas.wire.record_batch import BatchHeader, Record
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitValue,
    read_record,
)
from barnabas_logstore.core.coordinator.groups.registry import Groups, drop_offset, put_offset
from barnabas_logstore.core.coordinator.groups.stored_groups import restored_group
from barnabas_logstore.core.coordinator.log_loader import LogLoader

_COMMIT_MARKER: Final = b"\x00\x00\x00\x01"

_Key: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""


class Loader(LogLoader):
    """Applies a log's records to `groups`."""

    def __init__(self, groups: Groups, decompress: Decompress, end_offset: int, wall_ms: int) -> None:
        super().__init__(decompress, end_offset)
        self._groups = groups
        self._wall_ms = wall_ms
        self._open_transactions: dict[int, dict[_Key, tuple[int, OffsetCommitValue]]] = {}
        """By producer id: its pending commits, with the offsets of the records."""

    def apply(self, header: BatchHeader, record: Record) -> None:
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
        """Committed offsets of a group are independent of its members, and outlive them."""
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
        """The newest record counts: an older one written by a transaction is ignored when that commits."""
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
