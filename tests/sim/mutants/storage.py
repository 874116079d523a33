"""A logstore's log: rules 16, 17, 20 and 23 to 26, and what may be acknowledged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.channel.messages import Append
from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.compression import Decompress
from barnabas.ports.disk import Disk, DiskError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.effect_failures import EffectFailures
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.storage import effect_execution
from barnabas_logstore.core.storage.batches import batch_opening, batch_validation
from barnabas_logstore.core.storage.batches.batch_opening import first_record_of
from barnabas_logstore.core.storage.batches.batch_validation import CheckedBatch
from barnabas_logstore.core.storage.directories.kernel_boot import KernelBoot
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_results import OffsetAtTimestamp
from barnabas_logstore.core.storage.effects import FlushEffect, StorageEffect
from barnabas_logstore.core.storage.log.features.timestamp_lookup import TimestampLookup
from barnabas_logstore.core.storage.log.log_appends import LogAppends
from barnabas_logstore.core.storage.log.log_view import LogView
from barnabas_logstore.core.storage.log.state.producer_state import ProducedBatch, ProducerState
from barnabas_logstore.core.storage.recovery.log_cut import _LastSegment
from barnabas_logstore.core.storage.segment.record_times import RecordTimes
from barnabas_logstore.core.storage.segment.scan import scan_batches
from barnabas_logstore.core.storage.segment.segment import Segment
from barnabas_logstore.core.streams.streams import ExchangeStream
from tests.sim.faults import Fault
from tests.sim.mutants.planting import DISKS, LEADERS, Mutants, replace_in

STORAGE = Mutants("storage")


@STORAGE.breaks_with_unclean_leaders("I9", LEADERS)
def a_range_outlives_a_truncation() -> None:
    """The log goes on in the file that was truncated, where a slow client is still being sent what was there."""

    def cut(self: _LastSegment, disk: Disk) -> None:
        disk.truncate(disk.open(self.path), self.kept_bytes)

    replace_in(_LastSegment, "cut", cut)


@STORAGE.breaks("I8")
def acknowledged_before_written() -> None:
    original = Appends.append

    def append(self: Appends, stream: ExchangeStream, append: Append, wall_ms: int) -> None:
        original(self, stream, append, wall_ms)
        partition = self._replicas.by_key.get((append.topic_id, append.partition))
        for pending in self.pending_of(partition) if partition is not None else ():
            if not pending.answered:
                self._succeed(pending)

    replace_in(Appends, "append", append)


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


@STORAGE.breaks_for(
    "17", "tests/unit/logstore/storage/test_producers.py::test_a_new_epoch_starts_at_zero_and_fences_the_old_one"
)
def an_old_producer_epoch_may_write() -> None:
    original = ProducerState.check

    def check(self: ProducerState, *batch: int) -> ProducedBatch | ErrorCode:
        found = original(self, *batch)
        return ErrorCode.NONE if found is ErrorCode.INVALID_PRODUCER_EPOCH else found

    replace_in(ProducerState, "check", check)


@STORAGE.breaks_for(
    "20",
    "tests/unit/logstore/service/test_reads.py"
    "::test_the_latest_offset_is_not_known_while_the_epochs_start_is_not_committed",
)
def latest_offset_is_answered_before_the_epochs_start_is_committed() -> None:
    replace_in(Partition, "knows_latest_offset", lambda self: True)


_UNSOUND_BATCHES = "tests/unit/logstore/storage/test_append.py::test_what_is_not_one_sound_batch_is_refused"


@STORAGE.breaks_for("23", _UNSOUND_BATCHES)
def a_client_may_send_control_batches() -> None:
    original = batch_validation._unusual
    control_bit = batch_validation._CONTROL_BIT

    def unusual(header: BatchHeader, records: memoryview, config: TopicConfig) -> CheckedBatch | ErrorCode:
        return (header, records) if header.attributes & control_bit else original(header, records, config)

    replace_in(batch_validation, "_unusual", unusual)


@STORAGE.breaks_for("23", _UNSOUND_BATCHES)
def a_second_batch_is_passed_over() -> None:
    replace_in(batch_validation, "_fault_of_size", lambda records, header: None)


_BELIEVED = "tests/regressions/test_headers_that_are_believed.py"
_CODECS = "tests/regressions/test_streams_of_codecs.py"
_KEYS = "tests/regressions/test_keys_of_kafka_4_4.py"


@STORAGE.breaks_for("23", f"{_BELIEVED}::test_the_records_say_it")
def a_largest_timestamp_is_the_headers() -> None:
    for module in (batch_validation, batch_opening):
        replace_in(module, "must_be_opened", lambda header, records, config, wall_ms: False)


@STORAGE.breaks_for("23", f"{_BELIEVED}::test_what_a_header_says_is_not_enough_to_delete")
def retention_deletes_by_the_headers() -> None:
    replace_in(RecordTimes, "are_over", lambda self, wall_ms, retention_ms, modified_ms, byte_count: True)


@STORAGE.breaks_for("23", f"{_BELIEVED}::test_records_that_were_old_when_they_came_go_as_in_kafka")
def retention_waits_for_the_clock() -> None:
    def are_over(self: RecordTimes, wall_ms: int, retention_ms: int, modified_ms: int, byte_count: int) -> bool:
        return modified_ms < wall_ms - retention_ms

    replace_in(RecordTimes, "are_over", are_over)


@STORAGE.breaks_for("23", f"{_CODECS}::test_an_opened_batch_is_taken_if_javas_consumers_read_it")
def an_lz4_frame_is_what_the_format_allows() -> None:
    replace_in(batch_opening, "end_of_javas_frame", lambda payload, blocks_max: len(payload))


@STORAGE.breaks_for("23", f"{_KEYS}::test_a_record_of_a_compressed_batch_is_bounded")
def a_record_has_any_size() -> None:
    replace_in(batch_opening._Validation, "_check_size", lambda self, payload, start: None)


@STORAGE.breaks("24", DISKS)
def flush_is_not_waited_for() -> None:
    original = LogAppends.begin_write

    def begin_write(self: LogAppends) -> Any:
        effect = original(self)
        if effect is not None and effect.flush is not None:
            effect.flush = self.flushes.in_flight = None
        return effect

    replace_in(LogAppends, "begin_write", begin_write)


@STORAGE.breaks("26", [Fault.FLUSH_ERROR, Fault.POWER_CUT, Fault.TERMINATE_LOGSTORE], seconds=20)
def a_failed_flush_is_tried_again() -> None:
    """And succeeds, as it does where the kernel has marked the pages clean."""
    original = EffectFailures.on_failed

    def on_failed(self: EffectFailures, effect: StorageEffect, error: DiskError) -> None:
        if isinstance(effect, FlushEffect):
            self._outbox.effect_done(effect, b"")
        else:
            original(self, effect, error)

    replace_in(EffectFailures, "on_failed", on_failed)


@STORAGE.breaks("25", DISKS)
def recovery_checks_no_crc() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, batches: Any) -> Any:
        return original(self, scan_batches(self._disk, self.file, 0, self._disk.size(self.file)))

    replace_in(Segment, "rebuild", rebuild)


@STORAGE.breaks("25", DISKS)
def recovery_loses_the_last_batch() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, batches: Any) -> Any:
        return list(original(self, batches))[:-1]

    replace_in(Segment, "rebuild", rebuild)


@STORAGE.breaks("24", DISKS)
def clean_shutdown_marker_stays() -> None:
    def take_marker(self: LogDirectory) -> None:
        self.was_shut_down_cleanly = True

    replace_in(LogDirectory, "_take_marker", take_marker)


@STORAGE.breaks("15", [Fault.BIT_FLIP, Fault.KILL_LOGSTORE, Fault.KILL_ALL_LOGSTORES])
def a_log_that_is_cut_by_damage_says_nothing() -> None:
    """Nor does one whose flush has failed: its logstore stays in every ISR."""
    replace_in(KernelBoot, "expect_losses", lambda self: None)


@STORAGE.breaks("15", [Fault.POWER_CUT, Fault.RESTART_STORM, Fault.KILL_CONTROLLER, Fault.KILL_ALL_LOGSTORES])
def a_second_start_forgets_what_the_first_lacked() -> None:
    """The new boot is noted at once, before the controller has heard that something may be lacking."""

    def note_boot(self: KernelBoot) -> None:
        self._disk.replace_file(self._path, self._id)

    replace_in(KernelBoot, "forget", note_boot)


@STORAGE.breaks("I9")
def an_offset_by_time_is_of_a_later_record() -> None:
    """The first record after a time is the answer, where it should be the first at or after it."""
    original = LogView.lookup_timestamp

    def lookup(self: LogView, timestamp_ms: int, upto_offset: int, decompress: Decompress) -> TimestampLookup:
        is_special = timestamp_ms < 0
        return original(self, timestamp_ms + (not is_special), upto_offset, decompress)

    replace_in(LogView, "lookup_timestamp", lookup)


@STORAGE.breaks("I9")
def an_offset_by_time_is_that_of_its_batch() -> None:
    """The batch is found, and not opened."""
    original = first_record_of

    def first_offset(header: BatchHeader, *arguments: Any) -> OffsetAtTimestamp | None:
        found = original(header, *arguments)
        return found and replace(found, offset=header.base_offset)

    replace_in(effect_execution, "first_record_of", first_offset)
