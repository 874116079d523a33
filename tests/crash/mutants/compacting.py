"""Planted faults of compaction."""

from __future__ import annotations

from typing import Any

from barnabas_logstore.core.maintenance import cleanable, cleaning
from barnabas_logstore.core.storage import effect_execution
from barnabas_logstore.core.storage.compaction.batch_filter import BatchFilter
from barnabas_logstore.core.storage.compaction.cleaned_segment import CleanedSegmentWriter
from barnabas_logstore.core.storage.compaction.offset_map import OffsetMap
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.recovery import log_recovery as recovery
from tests.crash.mutants.planting import Plant, replace


def compaction_loses_the_last_value() -> None:
    original = OffsetMap.close

    def close(self: OffsetMap) -> None:
        original(self)
        del self._offsets[-1:]

    replace(OffsetMap, "close", close)


def compaction_takes_tombstones_for_nothing() -> None:
    original = OffsetMap.close

    def close(self: OffsetMap) -> None:
        self.latest = {key: offset for key, offset in self.latest.items() if offset >= 0}
        original(self)

    replace(OffsetMap, "close", close)


def compaction_goes_past_the_high_watermark_and_what_is_durable() -> None:
    original = cleanable.cleanable

    def past(log: PartitionLog, last_stable_offset: int, wall_ms: int) -> Any:
        recovery_point, log.state.recovery_point = log.state.recovery_point, log.next_offset
        held, log.state.unflushed.closed_segments = log.state.unflushed.closed_segments, []
        try:
            return original(log, log.next_offset, wall_ms)
        finally:
            log.state.recovery_point, log.state.unflushed.closed_segments = recovery_point, held

    replace(cleaning, "cleanable", past)


def cleaned_segments_are_not_flushed() -> None:
    original = CleanedSegmentWriter.finish

    def finish(self: CleanedSegmentWriter, aborted: Any) -> None:
        disk = self._disk
        self._disk = _Unflushed(disk)
        original(self, aborted)
        self._disk = disk

    replace(CleanedSegmentWriter, "finish", finish)


class _Unflushed:
    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return (lambda *arguments: None) if name == "flush" else getattr(self._disk, name)


def swaps_are_not_durable_step_by_step() -> None:
    def swap(disk: Any, effect: Any) -> None:
        for phase in effect.phases:
            for rename in phase:
                paths = (f"{effect.directory}/{rename.source}", f"{effect.directory}/{rename.target}")
                effect_execution._unless_gone(disk.rename, *paths)

    replace(effect_execution, "_swap", swap)


def swaps_that_were_broken_off_are_dropped() -> None:
    def finish_swaps(disk: Any, directory: str, byte_counts: dict[str, int]) -> None:
        for name in [name for name in byte_counts if name.endswith(".swap")]:
            disk.remove(f"{directory}/{name}")
            del byte_counts[name]

    replace(recovery, "finish_swaps", finish_swaps)


def producers_keep_no_last_batch() -> None:
    replace(BatchFilter, "_is_last_of_producer", lambda self, header: False)


PLANTS: tuple[Plant, ...] = (
    compaction_loses_the_last_value,
    compaction_takes_tombstones_for_nothing,
    compaction_goes_past_the_high_watermark_and_what_is_durable,
    cleaned_segments_are_not_flushed,
    swaps_are_not_durable_step_by_step,
    swaps_that_were_broken_off_are_dropped,
    producers_keep_no_last_batch,
)
