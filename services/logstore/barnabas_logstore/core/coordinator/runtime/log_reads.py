"""The reading of coordinators' logs from their disks, a bounded piece at a time for all of them.

A new leader's whole log is read, including uncommitted records: they count, because this replica leads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.containment import Guard, Place
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import iterate_headers
from barnabas_logstore.core.replica.containment import COORDINATOR_LOAD
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.effect_results import FoundBatches, NotFound
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Completion, Outbox

READ_BYTES: Final = 512 * 1024
READS_MAX: Final = 2
"""Pieces of logs that are held or requested; however many partitions have to be read, memory stays bounded."""


class LogReader(ABC):
    """One partition under one leader epoch, as its log is read."""

    __slots__ = ("is_unreadable", "lacks_room", "leader_epoch", "partition", "wanted_offset")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.wanted_offset: int | None = None
        """Where the coordinator wants to read, while no read is in progress."""
        self.is_unreadable = False
        self.lacks_room = False
        """Its last read had to rebuild an index, and the disk was full."""

    @property
    @abstractmethod
    def holds(self) -> bool:
        """Whether what is read still counts."""

    @abstractmethod
    def state_in_doubt(self, place: Place, error: Exception) -> None:
        """Note an unexpected exception: its epoch ends, and after a pause begins again."""


class LogReads:
    """What is wanted of the logs, is being read, and has arrived."""

    def __init__(self, replicas: Replicas, outbox: Outbox, give_up: Callable[[LogReader, ErrorCode], None]) -> None:
        """`give_up` is called once a part of a log can't be read."""
        self._replicas = replicas
        self._outbox = outbox
        self._give_up = give_up
        self.wanted: dict[LogReader, None] = {}
        """Whose next piece has not begun; read only."""
        self.arrived: deque[tuple[LogReader, memoryview, int]] = deque()
        """Complete batches, and the offset after them; leadership takes them."""
        self._reads: dict[ReadBatchesEffect, tuple[LogReader, ReadPlan]] = {}

    def want(self, reader: LogReader) -> None:
        """Read a piece of its log from `wanted_offset` on, when there is memory for it."""
        self.wanted[reader] = None

    def forget(self, reader: LogReader) -> None:
        """Its epoch is over: what has arrived of its log may still be taken, but is not wanted any more."""
        self.wanted.pop(reader, None)
        for effect in [effect for effect, (wanted_by, _) in self._reads.items() if wanted_by is reader]:
            del self._reads[effect]

    def begin(self) -> None:
        """Continue reading, as far as memory allows; what is not written yet is checked again in the next turn."""
        for reader in list(self.wanted):
            if len(self._reads) + len(self.arrived) >= READS_MAX:
                return
            if reader.lacks_room and reader.partition.log.no_room is not None:
                continue
            reader.lacks_room = False
            assert reader.wanted_offset is not None
            self._begin(reader, reader.wanted_offset)

    def _begin(self, reader: LogReader, wanted_offset: int) -> None:
        log = reader.partition.log
        offset = max(wanted_offset, log.log_start_offset)
        if offset >= log.next_offset:
            self._arrive(reader, memoryview(b""), offset)
            return
        plan: ReadPlan | ErrorCode | DiskError | None = None
        with Guard(reader, COORDINATOR_LOAD):
            plan = _plan_read(log, offset)
        if isinstance(plan, DiskError):
            self._disk_failed(reader, plan)
        elif isinstance(plan, ReadPlan):
            del self.wanted[reader]
            self._read(reader, plan)
        elif plan is not None:
            self._fail(reader, plan)

    def _read(self, reader: LogReader, plan: ReadPlan) -> None:
        effect = plan.effect
        self._reads[effect] = (reader, plan)
        failed = partial(self._replicas.log_effect_failed, reader.partition.log)
        self._outbox.add_effect(effect, Completion(lambda found: self._on_bytes(effect, found), failed))

    def _arrive(self, reader: LogReader, data: memoryview, next_offset: int) -> None:
        self.wanted.pop(reader, None)
        reader.wanted_offset = None
        self.arrived.append((reader, data, next_offset))

    def _on_bytes(self, effect: ReadBatchesEffect, found: FoundBatches | NotFound) -> None:
        """The bytes of a log have arrived; the coordinator may have lost it meanwhile."""
        awaited = self._reads.pop(effect, None)
        if awaited is None:
            return
        reader, plan = awaited
        if not reader.holds:
            return
        log = reader.partition.log
        records: memoryview | FileRange | ReadBatchesEffect | ErrorCode | DiskError | None = None
        with Guard(reader, COORDINATOR_LOAD):
            assert isinstance(found, effect.result.types)
            records = _finish_read(log, plan, found)
        if records is None:
            return
        if isinstance(records, DiskError):
            self._disk_failed(reader, records)
        elif isinstance(records, ReadBatchesEffect):
            self._read(reader, plan)
        elif records is ErrorCode.OFFSET_OUT_OF_RANGE and plan.effect.offset < log.log_start_offset:
            self.wanted[reader] = None  # deleted meanwhile: what is left of the log is read
        elif isinstance(records, ErrorCode):
            self._fail(reader, records)
        else:
            assert isinstance(records, memoryview), "no range was asked for"
            whole, next_offset = _whole_batches(records)
            if records and not whole:
                self._fail(reader, ErrorCode.CORRUPT_MESSAGE)
            else:
                self._arrive(reader, whole, next_offset)

    def _disk_failed(self, reader: LogReader, error: DiskError) -> None:
        """A full disk takes nothing offline: the read begins again when there is room."""
        self._replicas.disk_failed(reader.partition.log, error)
        if error.is_lack_of_room:
            reader.lacks_room = True
            self.wanted[reader] = None

    def _fail(self, reader: LogReader, error: ErrorCode) -> None:
        self.wanted.pop(reader, None)
        self._give_up(reader, error)


def _plan_read(log: PartitionLog, offset: int) -> ReadPlan | ErrorCode | DiskError | None:
    try:
        return log.plan_read(offset, READ_BYTES, log.log_end_offset, min_one_batch=True)
    except DiskError as error:
        return error


def _finish_read(
    log: PartitionLog, plan: ReadPlan, found: FoundBatches | NotFound
) -> memoryview | FileRange | ReadBatchesEffect | ErrorCode | DiskError:
    try:
        return log.finish_read(plan, found)
    except DiskError as error:
        return error


def _whole_batches(data: memoryview) -> tuple[memoryview, int]:
    """Return the complete batches, and the offset after them; none if the data is not batches."""
    end, next_offset = 0, 0
    try:
        for position, header in iterate_headers(data):
            end, next_offset = position + header.size_bytes, header.next_offset
    except MalformedFrame:
        return data[:0], 0
    return data[:end], next_offset
