"""Compaction as the core drives it: choose the log to clean next, order it, and use the result.

The records are read in the cleaner, a process of its own: per-record work here would stop all appends. It gets
one order at a time (`Outputs.cleaner`), for the log with the largest dirty ratio, and writes `.cleaned` files; each
cleaned segment that it reports is put in place from here, on an IO worker, in order. A pass that ends in any other way
than whole leaves nothing behind but the segments that are in place already, which are as good as the old ones.

A pass is aborted if its partition gets another leader, is stopped or deleted, if its directory fails, and if its source
segments are deleted (retention, DeleteRecords). Until the cleaner has released a log, no other of the same name is
created (`PartitionLog.is_being_cleaned`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from barnabas.containment import CONTAINING
from barnabas.metrics.family import Sample
from barnabas.metrics.log_families import (
    CLEANER_BYTES_READ,
    CLEANER_BYTES_WRITTEN,
    CLEANER_DEATHS,
    CLEANER_PASSES,
    MAX_DIRTY_PERCENT,
    TIME_SINCE_LAST_RUN,
    UNCLEANABLE_PARTITIONS,
)
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.core.maintenance.checkpoints import Checkpoints
from barnabas_logstore.core.maintenance.cleanable import CleanableLog, cleanable
from barnabas_logstore.core.maintenance.retention import Retention
from barnabas_logstore.core.replica.broker_settings import BrokerSettings
from barnabas_logstore.core.replica.containment import CLEANING, CLEANING_PASS
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.compaction.orders import (
    CancelOrder,
    CleanedSegment,
    CleanerReport,
    CleanOrder,
    PassEnded,
    PassOutcome,
    PassReport,
)
from barnabas_logstore.core.storage.effects import DropCleanedEffect, SwapEffect
from barnabas_logstore.core.streams.outbox import Completion, Outbox

# Checking a log takes some microseconds.
LOGS_PER_TICK = 128
# If the cleaner dies at one log this often, the log is taken for the cause, and tried again ever more rarely.
DEATHS_MAX = 3
RETRY_MS_MIN = 60_000
RETRY_MS_MAX = 3_600_000


@dataclass(slots=True)
class _Pass:
    """A pass that the cleaner was ordered to make."""

    order: CleanOrder
    partition: Partition
    before: CleanableLog
    to_swap: deque[CleanedSegment] = field(default_factory=deque)
    is_swapping: bool = False
    is_aborted: bool = False
    is_dropping: bool = False
    """Whether its files are being removed: the last step."""
    ended: PassEnded | None = None


class Cleaning:
    """`uncleanable` gives the reason for partitions that are not cleaned: until this process restarts if a batch can't
    be opened; if the cleaner dies at them, until a later try succeeds.
    """

    def __init__(
        self,
        replicas: Replicas,
        checkpoints: Checkpoints,
        retention: Retention,
        outbox: Outbox,
        settings: BrokerSettings,
        *,
        is_enabled: bool,
    ) -> None:
        self._replicas = replicas
        self._checkpoints = checkpoints
        self._retention = retention
        self._outbox = outbox
        self._settings = settings
        self._is_enabled = is_enabled
        self._now_ms = 0
        self._sleeps_since_ms: int | None = None
        """None while there may be something to clean. How long it sleeps may change meanwhile."""
        self._orders = 0
        self._to_look_at: deque[Partition] = deque()
        self._filthiest: tuple[Partition, CleanableLog] | None = None
        self._pass: _Pass | None = None
        self._deaths: dict[PartitionKey, int] = {}
        self._retries: dict[PartitionKey, int] = {}
        """When a partition at which the cleaner has died too often is tried again, in ms."""
        self._deaths_in_all = 0
        self.deaths_since_done = 0
        """Of the cleaner, since it has cleaned a log."""
        self.due_since: dict[PartitionKey, int] = {}
        """Since when logs are due for cleaning without having been cleaned, in ms."""
        self.uncleanable: dict[PartitionKey, str] = {}
        self._dirty_ratio_max = 0.0
        self._looked_ms = -1
        """When all logs had last been checked."""
        self._passes = dict.fromkeys(PassOutcome, 0)
        self._bytes_read = self._bytes_written = 0

    def samples(self) -> Iterator[Sample]:
        yield Sample(MAX_DIRTY_PERCENT, (), 100 * self._dirty_ratio_max)
        yield Sample(TIME_SINCE_LAST_RUN, (), -1 if self._looked_ms < 0 else self._now_ms - self._looked_ms)
        yield Sample(UNCLEANABLE_PARTITIONS, (), len(self.uncleanable))
        yield Sample(CLEANER_DEATHS, (), self._deaths_in_all)
        for outcome, passes in self._passes.items():
            yield Sample(CLEANER_PASSES, (outcome.name.lower(),), passes)
        yield Sample(CLEANER_BYTES_READ, (), self._bytes_read)
        yield Sample(CLEANER_BYTES_WRITTEN, (), self._bytes_written)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is ordered."""
        return self._pass is None

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is ordered, and no logs are being looked through."""
        return self._pass is None and not self._to_look_at

    def stop(self) -> None:
        """Give no more orders; cancel the present one."""
        self._is_enabled = False
        if self._pass is not None:
            self.abort(self._pass.partition)

    # --- what to clean ---

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Check some logs, and order the dirtiest one cleaned when all have been checked."""
        self._now_ms = now_ms
        is_clock_known = wall_ms > 0
        if not (self._is_enabled and is_clock_known) or self._pass is not None or self._sleeps():
            return
        self._sleeps_since_ms = None
        if not self._to_look_at:
            self._filthiest = None
            self._dirty_ratio_max = 0.0
            self._to_look_at.extend(self._replicas.by_key.values())
        for _ in range(min(len(self._to_look_at), LOGS_PER_TICK)):
            self._look_at(self._to_look_at.popleft(), wall_ms)
        if self._to_look_at:
            return
        self._looked_ms = now_ms
        self._look_again(wall_ms)
        if self._filthiest is None:
            self._sleeps_since_ms = now_ms
            self._forget_absent()
        else:
            partition, found = self._filthiest
            try:
                self._begin(partition, found, wall_ms)
            except Exception as fault:
                self._not_begun(partition, fault)

    def _sleeps(self) -> bool:
        since_ms = self._sleeps_since_ms
        return since_ms is not None and self._now_ms < since_ms + self._settings.cleaner_backoff_ms

    def _can_be_cleaned(self, partition: Partition) -> bool:
        is_ours = partition.online and not partition.is_stopped and partition.is_config_known
        return (
            is_ours
            and self._replicas.by_log.get(partition.log) is partition
            and partition.log.config.is_compacted
            and (partition.key not in self.uncleanable or self._may_retry(partition.key))
            and not partition.log.is_held
            and not partition.log.is_truncating
        )

    def _may_retry(self, key: PartitionKey) -> bool:
        due_ms = self._retries.get(key)
        return due_ms is not None and self._now_ms >= due_ms

    def _look_at(self, partition: Partition, wall_ms: int) -> None:
        if not self._can_be_cleaned(partition):
            self.due_since.pop(partition.key, None)
            return
        try:
            found = cleanable(partition.log, partition.last_stable_offset, wall_ms)
        except DiskError as error:
            self._replicas.disk_failed(partition.log, error)
            return
        except Exception as fault:
            topic, number = partition.log.topic_partition
            self._replicas.contained.contain(CLEANING, fault, {"topic": topic, "partition": number})
            return
        self._dirty_ratio_max = max(self._dirty_ratio_max, found.cleanable_ratio)
        if found.is_due:
            self.due_since.setdefault(partition.key, self._now_ms)
        else:
            self.due_since.pop(partition.key, None)
        if found.is_due and (self._filthiest is None or found.cleanable_ratio > self._filthiest[1].cleanable_ratio):
            self._filthiest = (partition, found)

    def _look_again(self, wall_ms: int) -> None:
        """Others were looked at since: the dirtiest log may have been cut, or lost segments to retention."""
        if self._filthiest is not None:
            partition, self._filthiest = self._filthiest[0], None
            self._look_at(partition, wall_ms)

    def _begin(self, partition: Partition, found: CleanableLog, wall_ms: int) -> None:
        self._orders += 1
        order = found.order(self._orders, wall_ms)
        self._pass = _Pass(order, partition, found)
        self._filthiest = None
        partition.log.begin_cleaning()
        self._outbox.to_cleaner(order)

    def _not_begun(self, partition: Partition, fault: Exception) -> None:
        """Something unexpected has ended the beginning of a pass: whether the cleaner has its order is unknown."""
        present, self._pass = self._pass, None
        # If the cleaner has it, it is cancelled before the next order comes.
        self._sleeps_since_ms = self._now_ms
        partition.log.end_cleaning()
        if present is not None:
            self._outbox.to_cleaner(CancelOrder(present.order.order_id))
        with CONTAINING:
            self._replicas.contained.log_in_doubt(CLEANING_PASS, fault, partition.log)

    def _forget_absent(self) -> None:
        """Forget partitions that were deleted."""
        by_key = self._replicas.by_key
        self.uncleanable = {key: reason for key, reason in self.uncleanable.items() if key in by_key}
        self._deaths = {key: deaths for key, deaths in self._deaths.items() if key in by_key}
        self._retries = {key: due_ms for key, due_ms in self._retries.items() if key in by_key}
        self.due_since = {key: due_ms for key, due_ms in self.due_since.items() if key in by_key}

    # --- what becomes of it ---

    def abort(self, partition: Partition) -> None:
        """Cancel an order for `partition`, if there is one."""
        present = self._pass
        if present is None or present.partition is not partition or present.is_aborted:
            return
        self._cancel(present)
        self._go_on(present)

    def on_report(self, report: CleanerReport) -> None:
        """A report of the cleaner. One about an order that is not the present one is ignored."""
        present = self._pass
        if present is None or report.order_id != present.order.order_id:
            return
        try:
            self._take(present, report)
        except Exception as fault:
            self._give_up(present, fault)

    def _give_up(self, present: _Pass, fault: Exception) -> None:
        """Something unexpected has ended a step of a pass: its log is in doubt, and others are cleaned once the cleaner
        has released this one.
        """
        if present is self._pass:
            if present.ended is None:
                self._cancel(present)
            elif not present.is_swapping:
                self._pass = None
                present.partition.log.end_cleaning()
        with CONTAINING:
            self._replicas.contained.log_in_doubt(CLEANING_PASS, fault, present.partition.log)

    def _cancel(self, present: _Pass) -> None:
        """Swap nothing in any more; PassEnded is the cleaner's answer, if it has not come already."""
        if present.is_aborted:
            return
        present.is_aborted = True
        present.to_swap.clear()
        if present.ended is None:
            self._outbox.to_cleaner(CancelOrder(present.order.order_id))

    def _take(self, present: _Pass, report: CleanerReport) -> None:
        match report:
            case CleanedSegment():
                if not present.is_aborted:
                    present.to_swap.append(report)
            case PassEnded():
                present.ended = report
                if report.outcome is not PassOutcome.DONE:
                    present.is_aborted = True
                    present.to_swap.clear()
        self._go_on(present)

    def on_cleaner_gone(self) -> None:
        """The process has ended, for whatever reason; a new one gets the next order."""
        present = self._pass
        if present is None or present.ended is not None:
            return
        key = present.partition.key
        if not present.is_aborted:
            self._deaths_in_all += 1
            self.deaths_since_done += 1
            self._deaths[key] = deaths = self._deaths.get(key, 0) + 1
            if deaths >= DEATHS_MAX:
                wait_ms = min(RETRY_MS_MAX, RETRY_MS_MIN << min(deaths - DEATHS_MAX, 6))
                self._retries[key] = self._now_ms + wait_ms
                self.uncleanable[key] = f"the cleaner died at it {deaths} times; tried again after {wait_ms // 1000} s"
        self.on_report(PassEnded(present.order.order_id, PassOutcome.ABORTED, reason="the cleaner died"))

    def _on_swapped(self, present: _Pass, effect: SwapEffect, result: object) -> None:
        """A cleaned segment is in its place; the old files are deleted file.delete.delay.ms later."""
        present.is_swapping = False
        log = present.partition.log
        try:
            log.on_swapped(effect)
            self._retention.delete_later(log, effect.replaced_paths)
            self._swap_ended(present)
        except Exception as fault:
            self._give_up(present, fault)

    def _on_swap_failed(self, present: _Pass, error: DiskError) -> None:
        """The log's directory is failing, or the log itself is gone."""
        present.is_swapping = False
        if error.is_lack_of_room:
            # In memory it is done, and nothing undoes it: a disk without room for a name is as good as broken.
            error = DiskError(DiskErrorKind.IO, error.operation, error.path)
        try:
            self._replicas.log_effect_failed(present.partition.log, error)
            self.abort(present.partition)
            self._swap_ended(present)
        except Exception as fault:
            self._give_up(present, fault)

    def _swap_ended(self, present: _Pass) -> None:
        if present is self._pass:
            self._go_on(present)

    def _on_dropped(self, present: _Pass, result: object) -> None:
        """The files of an aborted pass are removed."""
        self._end(present)

    def _on_dropping_failed(self, present: _Pass, error: DiskError) -> None:
        try:
            self._replicas.log_effect_failed(present.partition.log, error)
        finally:
            self._end(present)

    def _go_on(self, present: _Pass) -> None:
        """Swap the next segment in; if there is none and the cleaner is done, end."""
        if present.is_swapping or present.is_dropping:
            return
        if present.to_swap:
            self._swap(present, present.to_swap.popleft())
        elif present.ended is not None:
            if not present.is_aborted:
                self._end(present)
            else:
                present.is_dropping = True
                completion = Completion(partial(self._on_dropped, present), partial(self._on_dropping_failed, present))
                self._outbox.add_effect(DropCleanedEffect(present.order.directory), completion)

    def _swap(self, present: _Pass, cleaned: CleanedSegment) -> None:
        log = present.partition.log
        try:
            effect = log.begin_swap(cleaned)
        except DiskError as error:
            self._replicas.disk_failed(log, error)
            effect = None
        if effect is None:
            self.abort(present.partition)
        else:
            present.is_swapping = True
            done, failed = partial(self._on_swapped, present, effect), partial(self._on_swap_failed, present)
            self._outbox.add_effect(effect, Completion(done, failed, (log,)))

    def _end(self, present: _Pass) -> None:
        try:
            self._finish(present)
        except Exception as fault:
            self._give_up(present, fault)

    def _finish(self, present: _Pass) -> None:
        ended, log, key = present.ended, present.partition.log, present.partition.key
        assert ended is not None
        log.end_cleaning()
        self._pass = None
        if present.is_aborted and ended.outcome is PassOutcome.DONE:
            ended = replace(ended, outcome=PassOutcome.ABORTED)
        self._passes[ended.outcome] += 1
        self._bytes_read += ended.statistics.bytes_read
        self._bytes_written += ended.statistics.bytes_written
        match ended.outcome:
            case PassOutcome.DONE:
                log.compacted_upto(ended.next_dirty_offset)
                self._checkpoints.first_dirty_offset_moved(log)
                self.deaths_since_done = 0
                self.due_since.pop(key, None)
                for forgotten in (self._deaths, self._retries, self.uncleanable):
                    forgotten.pop(key, None)
            case PassOutcome.ABORTED:
                # The obstacle, such as a full disk, may persist for a while.
                self._sleeps_since_ms = self._now_ms
            case PassOutcome.UNCLEANABLE:
                self.uncleanable[key] = f"{ended.reason}; not tried again until the next start"
                self._retries.pop(key, None)
            case PassOutcome.DISK_ERROR:
                assert ended.disk_error is not None
                if self._replicas.by_log.get(log) is present.partition:
                    self._replicas.disk_failed(log, DiskError(ended.disk_error, "clean", log.directory))
            case _:
                assert_never(ended.outcome)
        topic, partition = log.topic_partition
        before = present.before
        self._outbox.report_pass(
            PassReport(
                topic,
                partition,
                before.first_dirty_offset,
                before.cleanable_ratio,
                ended,
                self.uncleanable.get(key, ""),
            )
        )
