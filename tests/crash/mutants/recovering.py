"""Planted faults of recovery."""

from __future__ import annotations

from typing import Any

from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effects import FlushEffect
from barnabas_logstore.core.storage.log.features.log_flushes import LogFlushes
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.recovery import log_recovery as recovery
from barnabas_logstore.core.storage.recovery import producer_recovery
from barnabas_logstore.core.storage.segment.batch_order import OffsetAndEpoch
from barnabas_logstore.core.storage.segment.offset_index import OffsetIndex
from barnabas_logstore.core.storage.segment.scan import scan_batches
from barnabas_logstore.core.storage.segment.segment import Segment
from barnabas_logstore.core.storage.segment.time_index import TimeIndex
from tests.crash.mutants.planting import Plant, replace


def recovery_checks_no_crc() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, batches: Any) -> Any:
        return original(self, scan_batches(self._disk, self.file, 0, self._disk.size(self.file)))

    replace(Segment, "rebuild", rebuild)


def recovery_loses_the_last_batch() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, batches: Any) -> Any:
        return list(original(self, batches))[:-1]

    replace(Segment, "rebuild", rebuild)


def torn_tail_is_not_cut() -> None:
    def cut(self: Segment) -> int:
        return self._disk.size(self.file) - self.byte_count

    replace(Segment, "cut", cut)


def torn_tail_is_cut_and_not_flushed() -> None:
    def cut(self: Segment) -> int:
        past_bytes = self._disk.size(self.file) - self.byte_count
        if past_bytes > 0:
            self._disk.truncate(self.file, self.byte_count)
        return past_bytes

    replace(Segment, "cut", cut)


def segments_after_a_hole_stay() -> None:
    replace(recovery._Opening, "_drop", lambda self, segment: None)


def indexes_are_not_rebuilt() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, batches: Any) -> Any:
        found = self._try_to_map_indexes()
        yield from original(self, batches)
        if found is not None and found[0].belongs_to(self.byte_count):
            self._offset_index = OffsetIndex(found[0].path, self.base_offset, bytearray(found[0].content()))
            self._time_index = TimeIndex(found[1].path, self.base_offset, bytearray(found[1].content()))

    replace(Segment, "rebuild", rebuild)


def last_time_is_never_in_doubt() -> None:
    replace(Segment, "_is_last_time_true", lambda self, offset_index, time_index: True)


def leader_epochs_are_not_truncated() -> None:
    replace(LeaderEpochs, "truncate_from", lambda self, offset: None)


def leader_epochs_are_written_late() -> None:
    """The checkpoint that a flush writes is the one before."""
    original = LogFlushes.begin

    def begin(self: LogFlushes, upto_offset: int) -> FlushEffect:
        effect = original(self, upto_offset)
        log: Any = self._state
        held, _LATE[log] = _LATE.get(log, []), effect.replacements
        effect.replacements = held
        return effect

    replace(LogFlushes, "begin", begin)


_LATE: dict[Any, Any] = {}


def snapshot_is_from_the_future() -> None:
    """Named by an offset before the last batch that it tells of."""
    original = LogFlushes.add_snapshot

    def add_snapshot(self: LogFlushes, snapshot: Any, offset: int) -> None:
        earlier = f"{snapshot.path[:-29]}{offset - 1:020d}.snapshot"
        original(self, type(snapshot)(earlier, snapshot.content), offset)

    replace(LogFlushes, "add_snapshot", add_snapshot)


def snapshots_past_the_end_stay() -> None:
    replace(recovery._Opening, "remove_leftovers", lambda self: None)


def producers_are_those_of_the_snapshot() -> None:
    replace(producer_recovery, "note_producer", lambda producers, header, marker: None)
    replace(recovery, "note_producer", lambda producers, header, marker: None)


def producers_are_forgotten() -> None:
    replace(ProducerState, "load", lambda self, entries, end_offset=None: None)


def high_watermark_is_believed() -> None:
    original = LogDirectory.load

    def load(self: LogDirectory, *arguments: Any) -> Any:
        found = original(self, *arguments)
        marks = self._read_offsets("replication-offset-checkpoint")
        return [
            type(each)(each.topic_partition, each.topic_id, marks.get(each.topic_partition, 0), each.opened)
            for each in found
        ]

    replace(LogDirectory, "load", load)


def emptied_indexes_are_not_flushed() -> None:
    original = LogFlushes.begin

    def begin(self: LogFlushes, upto_offset: int) -> FlushEffect:
        effect = original(self, upto_offset)
        active = self._state.segments.active
        if active.base_offset == upto_offset:
            effect.files = [path for path in effect.files if path not in active.paths]
        return effect

    replace(LogFlushes, "begin", begin)


def leader_epochs_are_read_back_from_batches() -> None:
    original = recovery._Opening._recover

    def recover(self: Any, suspects: list[Segment], end: OffsetAndEpoch | None) -> None:
        self.leader_epochs.truncate_from(suspects[0].base_offset)
        original(self, suspects, end)

    replace(recovery._Opening, "_recover", recover)


PLANTS: tuple[Plant, ...] = (
    recovery_checks_no_crc,
    recovery_loses_the_last_batch,
    torn_tail_is_not_cut,
    torn_tail_is_cut_and_not_flushed,
    segments_after_a_hole_stay,
    indexes_are_not_rebuilt,
    last_time_is_never_in_doubt,
    leader_epochs_are_not_truncated,
    leader_epochs_are_written_late,
    snapshot_is_from_the_future,
    snapshots_past_the_end_stay,
    producers_are_those_of_the_snapshot,
    producers_are_forgotten,
    high_watermark_is_believed,
    emptied_indexes_are_not_flushed,
    leader_epochs_are_read_back_from_batches,
)
