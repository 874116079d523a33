"""`python -m tests.crash.mutants`: faults of ours, planted in the storage one at a time, that crashes have to bring to
light.

Each breaks one rule of writing, flushing or recovering, in a process of its own, and is run from seed to seed until
something is noticed. The last line is `N planted, N caught`. Some of them are what this harness found, planted anew.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from barnabas.ports.disk import DiskError, DiskErrorKind
from services.logstore.core import cleaning
from services.logstore.core.appends import Appends
from services.logstore.core.storage import effects, log_directory, log_start, producer_recovery, recovery
from services.logstore.core.storage.compaction import cleanable
from services.logstore.core.storage.compaction.batch_filter import BatchFilter
from services.logstore.core.storage.compaction.cleaned_segment import CleanedSegmentWriter
from services.logstore.core.storage.compaction.offset_map import OffsetMap
from services.logstore.core.storage.effects import FlushEffect
from services.logstore.core.storage.leader_epochs import LeaderEpochs
from services.logstore.core.storage.log import AppendOutcome, PartitionLog
from services.logstore.core.storage.log_directory import LogDirectory
from services.logstore.core.storage.log_flushes import LogFlushes
from services.logstore.core.storage.log_room import LogRoom
from services.logstore.core.storage.offset_index import OffsetIndex
from services.logstore.core.storage.producer_state import ProducerState
from services.logstore.core.storage.segment import Segment
from services.logstore.core.storage.time_index import TimeIndex
from tests.crash import life
from tests.crash.programs import program_of
from tests.crash.run import run_program
from tests.sim.disk_model import DiskModel

SEEDS_MAX = 500


# --- the clean-shutdown marker, checkpoints, names ---


def marker_stays_at_the_start() -> None:
    def take_marker(self: LogDirectory) -> None:
        self.was_shut_down_cleanly = self._disk.exists(f"{self.path}/.kafka_cleanshutdown")

    _replace(LogDirectory, "_take_marker", take_marker)


def marker_is_removed_and_not_flushed() -> None:
    def take_marker(self: LogDirectory) -> None:
        path = f"{self.path}/.kafka_cleanshutdown"
        if self._disk.exists(path):
            self.was_shut_down_cleanly = True
            self._disk.remove(path)

    _replace(LogDirectory, "_take_marker", take_marker)


def marker_is_written_whatever_is_durable() -> None:
    original = LogDirectory.closing_flushes

    def closing_flushes(self: LogDirectory) -> list[FlushEffect]:
        for flush in original(self):
            flush.log.on_flushed(flush)
        return []

    _replace(LogDirectory, "closing_flushes", closing_flushes)


def checkpoints_are_not_flushed() -> None:
    def replace_file(self: DiskModel, path: str, content: bytes) -> None:
        file = self.open(f"{path}.tmp", create=True)
        self.truncate(file, 0)
        self.write_at(file, 0, (content,))
        self.rename(f"{path}.tmp", path)
        self.flush_directory(path.rpartition("/")[0])

    _replace(DiskModel, "replace_file", replace_file)


def checkpoints_are_written_in_place() -> None:
    def replace_file(self: DiskModel, path: str, content: bytes) -> None:
        file = self.open(path, create=True)
        self.truncate(file, 0)
        self.write_at(file, 0, (content,))
        self.flush(file)
        self.flush_directory(path.rpartition("/")[0])

    _replace(DiskModel, "replace_file", replace_file)


def recovery_points_of_before_the_crash_stay() -> None:
    _replace(log_directory, "execute", lambda disk, effect: b"")


def log_directory_has_no_name() -> None:
    def make_durably(disk: Any, path: str) -> None:
        if not disk.exists(path):
            disk.make_directory(path)

    _replace(log_directory, "_make_durably", make_durably)


def names_in_a_log_are_not_flushed() -> None:
    original = LogFlushes.begin

    def begin(self: LogFlushes, upto_offset: int) -> FlushEffect:
        effect = original(self, upto_offset)
        effect.directories = []
        return effect

    _replace(LogFlushes, "begin", begin)


def topic_id_is_not_flushed() -> None:
    _replace(PartitionLog, "flush_along", lambda self, path: None)


# --- flushes ---


def flush_does_nothing() -> None:
    _replace(effects, "_flush", lambda disk, effect: None)


def failed_flush_is_retried() -> None:
    original = effects._flush

    def flush(disk: Any, effect: FlushEffect) -> None:
        try:
            original(disk, effect)
        except DiskError:
            original(disk, effect)

    _replace(effects, "_flush", flush)


def closed_segments_are_not_flushed() -> None:
    def add_closed_segment(self: LogFlushes, segment: Segment, end_offset: int) -> None:
        self._directory_changed = True

    _replace(LogFlushes, "add_closed_segment", add_closed_segment)


def flush_is_not_waited_for() -> None:
    original = PartitionLog.take_write

    def take_write(self: PartitionLog) -> Any:
        effect = original(self)
        if effect is not None and effect.flush is not None:
            effect.flush = self.flushes.in_flight = None
        return effect

    _replace(PartitionLog, "take_write", take_write)


def recovery_point_is_ahead() -> None:
    original = LogFlushes.done

    def done(self: LogFlushes, effect: FlushEffect) -> None:
        original(self, effect)
        self.recovery_point = self._log.log_end_offset

    _replace(LogFlushes, "done", done)


def repeated_batch_is_not_flushed() -> None:
    def repeat(self: PartitionLog, known: Any, token: object) -> AppendOutcome:
        required_offset = known.last_offset + 1
        is_written = self.log_end_offset >= required_offset
        if not is_written:
            self.writes.join(required_offset, token)
        return AppendOutcome(known.first_offset, required_offset, -1, True, is_written)

    _replace(PartitionLog, "_repeat", repeat)


def write_waits_for_ever_behind_a_flush() -> None:
    _replace(Appends, "on_flushed", lambda self, log: None)


def lack_of_room_is_overlooked() -> None:
    original = effects.execute

    def execute(disk: Any, effect: Any) -> bytes:
        try:
            return original(disk, effect)
        except DiskError as error:
            if error.kind is not DiskErrorKind.NO_SPACE:
                raise
            return b""

    _replace(effects, "execute", execute)
    _replace(life, "execute", execute)


# --- recovery ---


def recovery_checks_no_crc() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, *, check_crc: bool) -> Any:
        return original(self, check_crc=False)

    _replace(Segment, "rebuild", rebuild)


def recovery_loses_the_last_batch() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, *, check_crc: bool) -> Any:
        return list(original(self, check_crc=check_crc))[:-1]

    _replace(Segment, "rebuild", rebuild)


def torn_tail_is_not_cut() -> None:
    def cut(self: Segment) -> int:
        return self._disk.size(self.file) - self.byte_count

    _replace(Segment, "cut", cut)


def torn_tail_is_cut_and_not_flushed() -> None:
    def cut(self: Segment) -> int:
        past_bytes = self._disk.size(self.file) - self.byte_count
        if past_bytes > 0:
            self._disk.truncate(self.file, self.byte_count)
        return past_bytes

    _replace(Segment, "cut", cut)


def segments_after_a_hole_stay() -> None:
    _replace(recovery._Opening, "_drop", lambda self, segment: None)


def indexes_are_not_rebuilt() -> None:
    original = Segment.rebuild

    def rebuild(self: Segment, *, check_crc: bool) -> Any:
        found = self._try_to_map_indexes()
        yield from original(self, check_crc=check_crc)
        if found is not None and found[0].belongs_to(self.byte_count):
            self._offset_index = OffsetIndex(found[0].path, self.base_offset, bytearray(found[0].content()))
            self._time_index = TimeIndex(found[1].path, self.base_offset, bytearray(found[1].content()))

    _replace(Segment, "rebuild", rebuild)


def last_time_is_never_in_doubt() -> None:
    _replace(Segment, "_is_last_time_true", lambda self, offset_index, time_index: True)


def leader_epochs_are_not_truncated() -> None:
    _replace(LeaderEpochs, "truncate_from", lambda self, offset: None)


def leader_epochs_are_written_late() -> None:
    """The checkpoint that a flush writes is the one before."""
    original = LogFlushes.begin

    def begin(self: LogFlushes, upto_offset: int) -> FlushEffect:
        effect = original(self, upto_offset)
        log: Any = self._log
        held, _LATE[log] = _LATE.get(log, []), effect.replacements
        effect.replacements = held
        return effect

    _replace(LogFlushes, "begin", begin)


_LATE: dict[Any, Any] = {}


def snapshot_is_from_the_future() -> None:
    """Named by an offset before the last batch that it tells of."""
    original = LogFlushes.add_snapshot

    def add_snapshot(self: LogFlushes, snapshot: Any, offset: int) -> None:
        earlier = f"{snapshot.path[:-29]}{offset - 1:020d}.snapshot"
        original(self, type(snapshot)(earlier, snapshot.content), offset)

    _replace(LogFlushes, "add_snapshot", add_snapshot)


def snapshots_past_the_end_stay() -> None:
    _replace(recovery._Opening, "remove_leftovers", lambda self: None)


def producers_are_those_of_the_snapshot() -> None:
    _replace(producer_recovery, "note_producer", lambda producers, header: None)
    _replace(recovery, "note_producer", lambda producers, header: None)


def producers_are_forgotten() -> None:
    _replace(ProducerState, "load", lambda self, entries: None)


def high_watermark_is_believed() -> None:
    original = LogDirectory.load

    def load(self: LogDirectory, *arguments: Any) -> Any:
        found = original(self, *arguments)
        marks = self._read_offsets("replication-offset-checkpoint")
        return [
            type(each)(each.topic_partition, each.topic_id, marks.get(each.topic_partition, 0), each.opened)
            for each in found
        ]

    _replace(LogDirectory, "load", load)


def emptied_indexes_are_not_flushed() -> None:
    original = LogFlushes.begin

    def begin(self: LogFlushes, upto_offset: int) -> FlushEffect:
        effect = original(self, upto_offset)
        active = self._log.segments.active
        if active.base_offset == upto_offset:
            effect.files = [path for path in effect.files if path not in active.paths]
        return effect

    _replace(LogFlushes, "begin", begin)


def leader_epochs_are_read_back_from_batches() -> None:
    original = recovery._Opening._recover

    def recover(self: Any, suspects: list[Segment]) -> None:
        self.leader_epochs.truncate_from(suspects[0].base_offset)
        original(self, suspects)

    _replace(recovery._Opening, "_recover", recover)


# --- the log's start ---


def retired_segments_are_renamed_all_at_once() -> None:
    def retire(disk: Any, effect: Any) -> None:
        for paths in effect.segments:
            for path in paths:
                effects._unless_gone(disk.rename, path, path + ".deleted")

    _replace(effects, "_retire", retire)


def retention_counts_what_is_gone() -> None:
    def apply_retention(log: PartitionLog, high_watermark: int, wall_ms: int) -> Any:
        rules = [log_start._below_log_start(log), log_start._past_size(log), log_start._past_time(log, wall_ms)]
        policies = log.config.cleanup_policy.split(",")
        return max(log_start._retire(log, high_watermark, rule) for rule in rules[: 3 if "delete" in policies else 1])

    _replace(log_start, "apply_retention", apply_retention)


def retention_goes_past_what_is_durable() -> None:
    _replace(LogFlushes, "whole_segments_upto", property(lambda self: self._log.next_offset))


def log_start_is_not_remembered_by_what_begins_anew() -> None:
    def begin_at_log_start(self: Any) -> None:
        self.log_start_offset = max(self.log_start_offset, self.segments.first.base_offset)

    _replace(recovery._Opening, "begin_at_log_start", begin_at_log_start)


def what_found_no_room_is_not_cut() -> None:
    original = LogRoom.take

    def take(self: LogRoom) -> Any:
        effect = original(self)
        if effect is not None:
            effect.cuts = []
        return effect

    _replace(LogRoom, "take", take)


def what_found_no_room_counts() -> None:
    def write_failed(self: LogRoom, effect: Any, error: DiskError) -> list[object]:
        self.refuse(error)
        self._log.on_written(effect)
        return []

    _replace(LogRoom, "write_failed", write_failed)


# --- compaction ---


def compaction_loses_the_last_value() -> None:
    original = OffsetMap.close

    def close(self: OffsetMap) -> None:
        original(self)
        del self._offsets[-1:]

    _replace(OffsetMap, "close", close)


def compaction_takes_tombstones_for_nothing() -> None:
    original = OffsetMap.close

    def close(self: OffsetMap) -> None:
        self.latest = {key: offset for key, offset in self.latest.items() if offset >= 0}
        original(self)

    _replace(OffsetMap, "close", close)


def compaction_goes_past_the_high_watermark_and_what_is_durable() -> None:
    original = cleanable.cleanable

    def past(log: PartitionLog, last_stable_offset: int, wall_ms: int) -> Any:
        recovery_point, log.flushes.recovery_point = log.flushes.recovery_point, log.next_offset
        held, log.flushes._closed_segments = log.flushes._closed_segments, []
        try:
            return original(log, log.next_offset, wall_ms)
        finally:
            log.flushes.recovery_point, log.flushes._closed_segments = recovery_point, held

    _replace(cleaning, "cleanable", past)


def cleaned_segments_are_not_flushed() -> None:
    original = CleanedSegmentWriter.finish

    def finish(self: CleanedSegmentWriter, aborted: Any) -> None:
        disk = self._disk
        self._disk = _Unflushed(disk)
        original(self, aborted)
        self._disk = disk

    _replace(CleanedSegmentWriter, "finish", finish)


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
                effects._unless_gone(disk.rename, *paths)

    _replace(effects, "_swap", swap)


def swaps_that_were_broken_off_are_dropped() -> None:
    def finish_swaps(disk: Any, directory: str, byte_counts: dict[str, int]) -> None:
        for name in [name for name in byte_counts if name.endswith(".swap")]:
            disk.remove(f"{directory}/{name}")
            del byte_counts[name]

    _replace(recovery, "finish_swaps", finish_swaps)


def producers_keep_no_last_batch() -> None:
    _replace(BatchFilter, "_is_last_of_producer", lambda self, header: False)


def _replace(owner: Any, name: str, mutation: Any) -> None:
    assert name in vars(owner), f"{owner} has no {name} of its own any more"
    setattr(owner, name, mutation)


MUTANTS: dict[str, Callable[[], None]] = {
    plant.__name__.replace("_", " "): plant
    for plant in (
        marker_stays_at_the_start,
        marker_is_removed_and_not_flushed,
        marker_is_written_whatever_is_durable,
        checkpoints_are_not_flushed,
        checkpoints_are_written_in_place,
        recovery_points_of_before_the_crash_stay,
        log_directory_has_no_name,
        names_in_a_log_are_not_flushed,
        topic_id_is_not_flushed,
        flush_does_nothing,
        failed_flush_is_retried,
        closed_segments_are_not_flushed,
        flush_is_not_waited_for,
        recovery_point_is_ahead,
        repeated_batch_is_not_flushed,
        write_waits_for_ever_behind_a_flush,
        lack_of_room_is_overlooked,
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
        retired_segments_are_renamed_all_at_once,
        retention_counts_what_is_gone,
        retention_goes_past_what_is_durable,
        log_start_is_not_remembered_by_what_begins_anew,
        what_found_no_room_is_not_cut,
        what_found_no_room_counts,
        compaction_loses_the_last_value,
        compaction_takes_tombstones_for_nothing,
        compaction_goes_past_the_high_watermark_and_what_is_durable,
        cleaned_segments_are_not_flushed,
        swaps_are_not_durable_step_by_step,
        swaps_that_were_broken_off_are_dropped,
        producers_keep_no_last_batch,
    )
}


# Where a fault can show at all: seeds of another shape are passed over. What needs two rare things at once gets more of
# the one.
WHERE: dict[Callable[[], None], Callable[[dict[str, str]], bool]] = {
    last_time_is_never_in_doubt: lambda defaults: (
        defaults.get("flush.messages") == "1" and defaults["segment.index.bytes"] in ("24", "40")
    ),
    torn_tail_is_cut_and_not_flushed: lambda defaults: defaults.get("flush.messages") != "1",
    **dict.fromkeys(
        (
            compaction_loses_the_last_value,
            compaction_takes_tombstones_for_nothing,
            compaction_goes_past_the_high_watermark_and_what_is_durable,
            cleaned_segments_are_not_flushed,
            swaps_are_not_durable_step_by_step,
            swaps_that_were_broken_off_are_dropped,
            producers_keep_no_last_batch,
            leader_epochs_are_read_back_from_batches,
        ),
        lambda defaults: "compact" in defaults["cleanup.policy"],
    ),
}


@dataclass(slots=True)
class Verdict:
    mutant: str
    seed: int | None
    failure: str
    cpu_s: float


def _anywhere(defaults: dict[str, str]) -> bool:
    return True


def hunt(mutant: str) -> Verdict:
    """Run seed after seed with the mutant planted, in this process, until something is noticed."""
    began = time.process_time()
    plant = MUTANTS[mutant]
    plant()
    may_show = WHERE.get(plant, _anywhere)
    programs = (program_of(seed) for seed in count(1))
    for program in islice((each for each in programs if may_show(dict(each.shape.defaults))), SEEDS_MAX):
        failure = run_program(program).failure
        if failure:
            return Verdict(mutant, program.seed, failure, time.process_time() - began)
    return Verdict(mutant, None, "", time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.mutants", description="Do crashes show our faults?")
    parser.add_argument("--only", metavar="WORDS", default="", help="mutants whose name contains this")
    parser.add_argument("--processes", type=int)
    arguments = parser.parse_args()
    wanted = [mutant for mutant in MUTANTS if arguments.only in mutant]
    caught = 0
    with multiprocessing.get_context("spawn").Pool(arguments.processes, maxtasksperchild=1) as pool:
        for verdict in pool.imap_unordered(_hunt, wanted, chunksize=1):
            caught += verdict.seed is not None
            found = f"seed {verdict.seed}: {verdict.failure[:110]}" if verdict.seed is not None else "NOT CAUGHT"
            print(f"{verdict.mutant:<42} {verdict.cpu_s:6.1f} s  {found}", flush=True)
    print(f"{len(wanted)} planted, {caught} caught")
    sys.exit(0 if caught == len(wanted) else 1)


def _hunt(mutant: str) -> Verdict:
    # By name: in the spawned process `__main__` is another module than the one that patches.
    from tests.crash import mutants

    return mutants.hunt(mutant)


if __name__ == "__main__":
    main()
