"""The IO workers of a logstore: what its core has them do to the disk, when, and who hears of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.ports.disk import DiskError
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.storage.effect_execution import EffectResult, execute
from barnabas_logstore.core.storage.effects import (
    CLEANED_SUFFIX,
    FindRecordEffect,
    FlushEffect,
    ReadBatchesEffect,
    ReadEffect,
    ReadTimestampsEffect,
    StorageEffect,
    SwapEffect,
    TruncateEffect,
    ValidateBatchEffect,
    VolumeFlushEffect,
    WriteEffect,
)
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import LOG_SUFFIX
from tests.sim.compaction import CleanedLog
from tests.sim.nodes.disk_watcher import DiskWatcher
from tests.sim.page_cache import read_in_place
from tests.sim.process import CrashPoint
from tests.sim.replica_logs import Batch
from tests.sim.scheduler import MS, injected

if TYPE_CHECKING:
    from tests.sim.nodes.logstore import LogstoreNode

IN_PLACE = 0.3
"""The part of small effects that are done at once, in the turn that they come from."""
CACHED = 0.9
"""The part of what these read that is in the page cache: for the others a worker does it all again."""


class DiskWorkers:
    def __init__(self, node: LogstoreNode, watcher: DiskWatcher) -> None:
        self._node = node
        self._watcher = watcher

    def carry_out(self, effects: list[StorageEffect]) -> None:
        """Small ones may be done in place; each of the others by some worker, some time later: they overtake others."""
        for effect in effects:
            if isinstance(effect, SwapEffect):
                self._swaps(effect)
            if self._is_done_in_place(effect) and self._execute(effect, in_place=True):
                if not self._node.alive:
                    return
                continue
            delay_us = 10 + self._node.scheduler.below(390)
            if self._node.scheduler.random.random() < 0.02:
                delay_us += self._node.scheduler.below(30 * MS)
            if self._node.disk_stall_us is not None:
                delay_us += self._node.disk_stall_us()
            self._node.after(delay_us, partial(_effect_text, "does", effect), partial(self._execute, effect))

    def _swaps(self, effect: SwapEffect) -> None:
        """In memory it is done."""
        partition = self._partition_of(effect.directory)
        if partition is None:
            return
        made, replaced, _ = effect.phases
        log_name = next(each.source for each in made if each.source.endswith(LOG_SUFFIX + CLEANED_SUFFIX))
        first_offset = int(replaced[0].source.partition(".")[0])
        later = [each.base_offset for each in partition.log.segments.all() if each.base_offset > first_offset]
        data = self._node.disk.peek(f"{effect.directory}/{log_name}")
        pass_end_offset = self._node.cleaner.end_offsets[effect.directory]
        self._watcher.cleaned(self._node, partition, CleanedLog(first_offset, later[0], pass_end_offset, data))

    def _is_done_in_place(self, effect: StorageEffect) -> bool:
        if self._node.disk_stall_us is not None:
            return False
        match effect:
            case WriteEffect(flush=None) | ReadEffect() | ReadBatchesEffect():
                return self._node.scheduler.random.random() < IN_PLACE
            case _:
                return False

    def _execute(self, effect: StorageEffect, *, in_place: bool = False) -> bool:
        """Return whether it has been done: in place, a read of what is not in the page cache is not."""
        outcome: EffectResult | DiskError
        written = self._begins(effect) if isinstance(effect, WriteEffect | TruncateEffect) else None
        try:
            outcome = self._outcome(effect, in_place=in_place)
        except BlockingIOError:
            return False
        except DiskError as error:
            outcome = error
            self._watcher.failed(written or [])
        except Exception as error:
            if injected(error) is None or not self._is_contained(effect):
                raise
            assert self._node.core is not None
            outcome = self._node.core.contained.work_failed(effect, error)
            self._watcher.failed(written or [])
        else:
            self._note(effect, outcome, written)
            if self._node.crash_points and self._dies_after(effect):
                return True
        if in_place:
            assert self._node.core is not None
            self._node.core.on_io_done(effect, outcome)
            return True
        delay_us = 5 + self._node.scheduler.below(95)
        self._node.after(delay_us, partial(_effect_text, "has done", effect), partial(self._report, effect, outcome))
        return True

    def _is_contained(self, effect: StorageEffect) -> bool:
        """As the service's threads have it: an exception is an outcome, by which a log directory goes offline, unless
        the work is on a batch alone. Here the only directory of a logstore does so: with several the process ends.
        """
        is_batch_work = isinstance(effect, ValidateBatchEffect | FindRecordEffect | ReadTimestampsEffect)
        return is_batch_work or len(self._node.log_dirs) == 1

    def _outcome(self, effect: StorageEffect, *, in_place: bool) -> EffectResult:
        disk = self._node.disk
        if not (in_place and isinstance(effect, ReadEffect | ReadBatchesEffect)):
            return execute(disk, effect)
        return read_in_place(disk, effect, self._is_cached)

    def _is_cached(self) -> bool:
        return self._node.scheduler.random.random() < CACHED

    def _begins(self, effect: WriteEffect | TruncateEffect) -> list[Batch] | None:
        partition = self._partition_of(effect.directory)
        if partition is None:
            return None
        if isinstance(effect, TruncateEffect):
            if effect.truncate_fully:
                self._watcher.starts_over(self._node, partition)
            return None
        return self._watcher.writing(self._node, partition, b"".join(map(bytes, effect.buffers)))

    def _dies_after(self, effect: StorageEffect) -> bool:
        match effect:
            case WriteEffect():
                return self._node.reached(CrashPoint.WRITTEN)
            case TruncateEffect():
                return self._node.reached(CrashPoint.TRUNCATED)
            case _:
                return False

    def _note(self, effect: StorageEffect, result: EffectResult, written: list[Batch] | None) -> None:
        match effect:
            case WriteEffect(directory=directory, flush=flush):
                partition = self._partition_of(directory)
                if partition is not None and written is not None:
                    self._watcher.wrote(self._node, partition, written)
                if flush is not None:
                    self._note(flush, b"", None)
            case FlushEffect(directory=directory, upto_offset=upto_offset):
                partition = self._partition_of(directory)
                if partition is not None:
                    self._watcher.flushed(self._node, partition, upto_offset)
            case VolumeFlushEffect(flushes=flushes):
                for each in flushes:
                    self._note(each, b"", None)
            case TruncateEffect(directory=directory):
                partition = self._partition_of(directory)
                if partition is not None and isinstance(result, LogState):
                    truncate_fully = result.segments.byte_count == 0
                    self._watcher.cut(self._node, partition, result.next_offset, truncate_fully=truncate_fully)

    def _partition_of(self, directory: str) -> Partition | None:
        """The partition whose log is in `directory`; None once the topic is gone."""
        return next((partition for partition in self._node.partitions if partition.log.directory == directory), None)

    def _report(self, effect: StorageEffect, outcome: EffectResult | DiskError) -> None:
        assert self._node.core is not None
        self._node.core.on_io_done(effect, outcome)
        self._node.turn_soon()


def _effect_text(word: str, effect: StorageEffect) -> str:
    match effect:
        case WriteEffect():
            return f"{word} a write of {effect.byte_count} bytes to {effect.directory} up to {effect.end_offset}"
        case FlushEffect():
            return f"{word} a flush of {effect.directory} up to {effect.upto_offset}"
        case _:
            return f"{word} {type(effect).__name__}"
