"""A logstore's log: rules 16, 20 and 24 to 26, and what may be acknowledged."""

from __future__ import annotations

from typing import Any

from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from services.logstore.core.appends import Appends
from services.logstore.core.disk_outcomes import DiskOutcomes
from services.logstore.core.partition import Partition
from services.logstore.core.storage.effects import FlushEffect, StorageEffect
from services.logstore.core.storage.log import PartitionLog
from services.logstore.core.storage.log_directory import LogDirectory
from services.logstore.core.storage.producer_state import ProducedBatch, ProducerState
from services.logstore.core.storage.segment import Segment
from tests.sim.faults import Fault
from tests.sim.mutants.planting import DISKS, Mutants, replace_in

STORAGE = Mutants("storage")


@STORAGE.breaks("I7")
def watermark_ahead_of_written() -> None:
    def advance(self: Partition, lag_ms_max: int, now_ms: int) -> bool:
        moved = self.log.next_offset > self.high_watermark
        self.high_watermark = self.log.next_offset
        return moved

    replace_in(Partition, "advance_high_watermark", advance)


@STORAGE.breaks("6")
def success_without_followers() -> None:
    original = Appends._succeed

    def succeed(self: Appends, pending: Any) -> None:
        original(self, pending)
        pending.result.committed = True

    replace_in(Appends, "_succeed", succeed)


@STORAGE.breaks("20")
def reads_beyond_the_watermark() -> None:
    def last_stable_offset(self: Partition) -> int:
        return self.log.log_end_offset

    replace_in(Partition, "last_stable_offset", property(last_stable_offset))


@STORAGE.breaks("16")
def duplicates_are_not_recognised() -> None:
    def check(self: ProducerState, *batch: int) -> ProducedBatch | ErrorCode:
        return ErrorCode.NONE

    replace_in(ProducerState, "check", check)


def _with_window_of(batches: int) -> None:
    """A batch that is repeated is known among the newest `batches` of its producer."""
    original = ProducerState.check

    def check(self: ProducerState, producer_id: int, *rest: int) -> ProducedBatch | ErrorCode:
        known = original(self, producer_id, *rest)
        entry = self._producers.get(producer_id)
        if entry is None or not isinstance(known, ProducedBatch) or known in entry.batches[-batches:]:
            return known
        return ErrorCode.NONE

    replace_in(ProducerState, "check", check)


@STORAGE.breaks("16", [Fault.RESET, Fault.KILL_GATEWAY, Fault.CUT, Fault.RETRY_STORM])
def window_of_one_batch() -> None:
    _with_window_of(1)


@STORAGE.breaks("16", [Fault.RESET, Fault.KILL_GATEWAY, Fault.CUT, Fault.RETRY_STORM])
def window_of_four_batches() -> None:
    _with_window_of(4)


@STORAGE.breaks("24", DISKS)
def flush_is_not_waited_for() -> None:
    original = PartitionLog.take_write

    def take_write(self: PartitionLog) -> Any:
        effect = original(self)
        if effect is not None and effect.flush is not None:
            effect.flush = self.flushes.in_flight = None
        return effect

    replace_in(PartitionLog, "take_write", take_write)


@STORAGE.breaks("26", [Fault.FLUSH_ERROR, Fault.POWER_CUT, Fault.TERMINATE_LOGSTORE], seconds=20)
def a_failed_flush_is_tried_again() -> None:
    """And succeeds, as it does where the kernel has marked the pages clean."""
    original = DiskOutcomes.on_failed

    def on_failed(self: DiskOutcomes, effect: StorageEffect, error: DiskError) -> None:
        if isinstance(effect, FlushEffect):
            self.on_done(effect, b"")
        else:
            original(self, effect, error)

    replace_in(DiskOutcomes, "on_failed", on_failed)


@STORAGE.breaks("25", DISKS)
def recovery_checks_no_crc() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, *, check_crc: bool) -> Any:
        return original(self, check_crc=False)

    replace_in(Segment, "rebuild", rebuild)


@STORAGE.breaks("25", DISKS)
def recovery_loses_the_last_batch() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, *, check_crc: bool) -> Any:
        return list(original(self, check_crc=check_crc))[:-1]

    replace_in(Segment, "rebuild", rebuild)


@STORAGE.breaks("24", DISKS)
def clean_shutdown_marker_stays() -> None:
    def take_marker(self: LogDirectory) -> None:
        self.was_shut_down_cleanly = True

    replace_in(LogDirectory, "_take_marker", take_marker)


@STORAGE.breaks("15", [Fault.BIT_FLIP, Fault.KILL_LOGSTORE, Fault.KILL_ALL_LOGSTORES])
def a_log_that_is_cut_by_damage_says_nothing() -> None:
    """Nor does one whose flush has failed: whoever has it stays in every ISR."""
    replace_in(LogDirectory, "_expect_losses", lambda self: None)


@STORAGE.breaks("15", [Fault.POWER_CUT, Fault.RESTART_STORM, Fault.KILL_CONTROLLER, Fault.KILL_ALL_LOGSTORES])
def a_second_start_forgets_what_the_first_lacked() -> None:
    """The new boot is noted at once, before the controller has heard that something may be lacking."""

    def note_boot(self: LogDirectory) -> None:
        self._disk.replace_file(self._boot_path, self._kernel_boot_id)

    replace_in(LogDirectory, "_forget_boot", note_boot)
