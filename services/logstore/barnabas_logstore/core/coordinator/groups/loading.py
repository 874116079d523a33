"""Read a partition of `__consumer_offsets`.

Offsets that were sent within transactions are pending until their marker is read; what is pending at the log's end
stays so.
"""

from __future__ import annotations

from barnabas.ports.compression import Decompress
from barnabas.wire.markers import COMMIT, control_type_of
from barnabas.wire.record_batch import BatchHeader, Record
from barnabas_logstore.core.coordinator.groups.log_loader import LogLoader
from barnabas_logstore.core.coordinator.groups.pending_offsets import PendingOffsets
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_record,
)
from barnabas_logstore.core.coordinator.groups.registry import Groups, drop_offset, put_offset
from barnabas_logstore.core.coordinator.groups.stored_groups import restored_group


class Loader(LogLoader):
    """Applies a log's records to `groups` and `pending`."""

    def __init__(
        self, groups: Groups, pending: PendingOffsets, decompress: Decompress, end_offset: int, wall_ms: int
    ) -> None:
        super().__init__(decompress, end_offset)
        self._groups = groups
        self._pending = pending
        self._wall_ms = wall_ms

    def apply(self, header: BatchHeader, record: Record) -> None:
        if header.is_control:
            is_commit = control_type_of(None if record.key is None else bytes(record.key)) == COMMIT
            self._pending.end(header.producer_id, self._wall_ms, is_commit=is_commit)
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
            place = key.topic, key.partition
            self._pending.add(header.producer_id, key.group, place, value, record.offset)
        else:
            self._apply_offset(key, value, record.offset)

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

    def _apply_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int) -> None:
        if value is not None:
            self._pending.overtake(key.group, (key.topic, key.partition), offset)
            put_offset(self._groups.get_or_add(key.group, self._wall_ms), key.topic, key.partition, value)
            return
        self._pending.delete(key.group, (key.topic, key.partition))
        group = self._groups.get(key.group)
        if group is not None:
            drop_offset(group, key.topic, key.partition)
            self._groups.remove_if_unused(group)
