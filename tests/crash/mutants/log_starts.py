"""Planted faults of where a log starts: retention, beginning anew, a full disk."""

from __future__ import annotations

from typing import Any

from barnabas.ports.disk import DiskError
from services.logstore.core.storage import effects, log_start, recovery
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.log_flushes import LogFlushes
from services.logstore.core.storage.log_room import LogRoom
from tests.crash.mutants.planting import Plant, replace


def retired_segments_are_renamed_all_at_once() -> None:
    def retire(disk: Any, effect: Any) -> None:
        for paths in effect.segments:
            for path in paths:
                effects._unless_gone(disk.rename, path, path + ".deleted")

    replace(effects, "_retire", retire)


def retention_counts_what_is_gone() -> None:
    def apply_retention(log: PartitionLog, high_watermark: int, wall_ms: int) -> Any:
        rules = [log_start._below_log_start(log), log_start._past_size(log), log_start._past_time(log, wall_ms)]
        policies = log.config.cleanup_policy.split(",")
        return max(log_start._retire(log, high_watermark, rule) for rule in rules[: 3 if "delete" in policies else 1])

    replace(log_start, "apply_retention", apply_retention)


def retention_goes_past_what_is_durable() -> None:
    replace(LogFlushes, "whole_segments_upto", property(lambda self: self._log.next_offset))


def log_start_is_not_remembered_by_what_begins_anew() -> None:
    def begin_at_log_start(self: Any) -> None:
        self.log_start_offset = max(self.log_start_offset, self.segments.first.base_offset)

    replace(recovery._Opening, "begin_at_log_start", begin_at_log_start)


def what_found_no_room_is_not_cut() -> None:
    original = LogRoom.take

    def take(self: LogRoom) -> Any:
        effect = original(self)
        if effect is not None:
            effect.cuts = []
        return effect

    replace(LogRoom, "take", take)


def what_found_no_room_counts() -> None:
    def write_failed(self: LogRoom, effect: Any, error: DiskError) -> list[object]:
        self.refuse(error)
        self._log.on_written(effect)
        return []

    replace(LogRoom, "write_failed", write_failed)


PLANTS: tuple[Plant, ...] = (
    retired_segments_are_renamed_all_at_once,
    retention_counts_what_is_gone,
    retention_goes_past_what_is_durable,
    log_start_is_not_remembered_by_what_begins_anew,
    what_found_no_room_is_not_cut,
    what_found_no_room_counts,
)
