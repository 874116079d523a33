"""Planted faults of flushes."""

from __future__ import annotations

from typing import Any

from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.core.logstore import LogstoreCore
from barnabas_logstore.core.storage import effect_execution, flushing
from barnabas_logstore.core.storage.effects import FlushEffect, VolumeFlushEffect
from barnabas_logstore.core.storage.log.features.log_flushes import LogFlushes
from barnabas_logstore.core.storage.log.log_appends import AppendOutcome, LogAppends
from barnabas_logstore.core.storage.segment.segment import Segment
from tests.crash import life
from tests.crash.mutants.planting import Plant, replace
from tests.sim.disk_model import DiskModel


def flush_does_nothing() -> None:
    replace(effect_execution, "flush", lambda disk, effect: None)


def failed_flush_is_retried() -> None:
    original = flushing.flush

    def flush(disk: Any, effect: FlushEffect) -> None:
        try:
            original(disk, effect)
        except DiskError:
            original(disk, effect)

    replace(effect_execution, "flush", flush)


def volumes_are_not_flushed() -> None:
    replace(DiskModel, "flush_volume", lambda self, path: None)


def failed_flush_of_a_volume_is_retried() -> None:
    original = flushing.flush_together

    def flush_together(disk: Any, effect: VolumeFlushEffect) -> None:
        try:
            original(disk, effect)
        except DiskError:
            original(disk, effect)

    replace(effect_execution, "flush_together", flush_together)


def closed_segments_are_not_flushed() -> None:
    def add_closed_segment(self: LogFlushes, segment: Segment, end_offset: int) -> None:
        self._directory_changed = True

    replace(LogFlushes, "add_closed_segment", add_closed_segment)


def flush_is_not_waited_for() -> None:
    original = LogAppends.begin_write

    def begin_write(self: LogAppends) -> Any:
        effect = original(self)
        if effect is not None and effect.flush is not None:
            effect.flush = self.flushes.in_flight = None
        return effect

    replace(LogAppends, "begin_write", begin_write)


def recovery_point_is_ahead() -> None:
    original = LogFlushes.done

    def done(self: LogFlushes, effect: FlushEffect) -> None:
        original(self, effect)
        self._state.recovery_point = self._state.log_end_offset

    replace(LogFlushes, "done", done)


def repeated_batch_is_not_flushed() -> None:
    def repeat(
        self: LogAppends, base_offset: int, required_offset: int, timestamp_ms: int, token: object
    ) -> AppendOutcome:
        is_written = self.log_end_offset >= required_offset
        if not is_written:
            self.writes.join(required_offset, token)
        return AppendOutcome(base_offset, required_offset, -1, True, is_written)

    replace(LogAppends, "_repeat", repeat)


def write_waits_for_ever_behind_a_flush() -> None:
    replace(LogstoreCore, "flush_ended", lambda self, log: None)


def lack_of_room_is_overlooked() -> None:
    original = effect_execution.execute

    def execute(disk: Any, effect: Any) -> bytes:
        try:
            return original(disk, effect)
        except DiskError as error:
            if error.kind is not DiskErrorKind.NO_SPACE:
                raise
            return b""

    replace(effect_execution, "execute", execute)
    replace(life, "execute", execute)


PLANTS: tuple[Plant, ...] = (
    flush_does_nothing,
    failed_flush_is_retried,
    volumes_are_not_flushed,
    failed_flush_of_a_volume_is_retried,
    closed_segments_are_not_flushed,
    flush_is_not_waited_for,
    recovery_point_is_ahead,
    repeated_batch_is_not_flushed,
    write_waits_for_ever_behind_a_flush,
    lack_of_room_is_overlooked,
)
