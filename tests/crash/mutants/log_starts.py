"""Planted faults of where a log starts: retention, starting over, a full disk."""

from __future__ import annotations

from typing import Any

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage import effect_execution
from barnabas_logstore.core.storage.batches import batch_opening, batch_validation
from barnabas_logstore.core.storage.log.features import log_retention
from barnabas_logstore.core.storage.log.features.disk_full_recovery import DiskFullRecovery
from barnabas_logstore.core.storage.log.features.log_flushes import LogFlushes
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.recovery import log_recovery as recovery
from tests.crash.mutants.planting import Plant, replace


def retired_segments_are_renamed_all_at_once() -> None:
    def retire(disk: Any, effect: Any) -> None:
        for paths in effect.segments:
            for path in paths:
                effect_execution._unless_gone(disk.rename, path, path + ".deleted")

    replace(effect_execution, "_retire", retire)


def retention_counts_what_is_gone() -> None:
    """The rules look at the log as it was before the first of them."""
    original = PartitionLog.apply_retention

    def apply_retention(self: PartitionLog, high_watermark: int, wall_ms: int) -> Any:
        found = [rule(self.state, wall_ms) for rule in rules_of(self.state)]
        replace(log_retention, "rules_of", lambda state: [lambda state, wall_ms, each=each: each for each in found])
        return original(self, high_watermark, wall_ms)

    rules_of = log_retention.rules_of
    replace(PartitionLog, "apply_retention", apply_retention)


def retention_counts_a_log_twice() -> None:
    """As on a new leader that does not know yet which segments are counted elsewhere too (KAFKA-20732)."""
    original = log_retention.past_size

    def past_size(state: LogState, wall_ms: int) -> log_retention.IsOver:
        is_over = original(state, wall_ms)
        counted_bytes = state.segments.byte_count
        if counted_bytes <= state.config.retention_bytes < 2 * counted_bytes:
            excess_bytes = 2 * counted_bytes - state.config.retention_bytes
            return lambda segment, following: following is not None and segment.byte_count <= excess_bytes
        return is_over

    replace(log_retention, "past_size", past_size)


def retention_goes_past_what_is_durable() -> None:
    replace(LogFlushes, "whole_segments_upto", property(lambda self: self._state.next_offset))


def log_start_is_not_remembered_by_a_log_that_starts_over() -> None:
    def begin_at_log_start(self: Any) -> None:
        self.log_start_offset = max(self.log_start_offset, self.segments.first.base_offset)

    replace(recovery._Opening, "begin_at_log_start", begin_at_log_start)


def what_found_no_room_is_not_cut() -> None:
    original = DiskFullRecovery.begin

    def begin(self: DiskFullRecovery) -> Any:
        effect = original(self)
        if effect is not None:
            effect.cuts = []
        return effect

    replace(DiskFullRecovery, "begin", begin)


def what_found_no_room_counts() -> None:
    def on_write_without_room(self: PartitionLog, effect: Any, error: DiskError) -> list[object]:
        self.disk_full.refuse_appends(error)
        self.on_written(effect)
        return []

    replace(PartitionLog, "on_write_without_room", on_write_without_room)


def headers_are_believed() -> None:
    """A largest timestamp is stored as the client has written it."""
    for module in (batch_validation, batch_opening):
        replace(module, "must_be_opened", lambda header, records, config, wall_ms: False)


PLANTS: tuple[Plant, ...] = (
    retired_segments_are_renamed_all_at_once,
    retention_counts_what_is_gone,
    retention_counts_a_log_twice,
    retention_goes_past_what_is_durable,
    log_start_is_not_remembered_by_a_log_that_starts_over,
    what_found_no_room_is_not_cut,
    what_found_no_room_counts,
    headers_are_believed,
)
