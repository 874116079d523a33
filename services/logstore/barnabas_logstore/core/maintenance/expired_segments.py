"""Read the records of segments that have expired by the word of their headers alone, before retention deletes them.

One part of one segment is read at a time, on a worker: this delays a deletion, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.ports.compression import Decompress
from barnabas.ports.disk import DiskError
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.effect_results import RecordTimestamps, Refusal
from barnabas_logstore.core.storage.effects import ReadTimestampsEffect
from barnabas_logstore.core.storage.segment.segment import Segment
from barnabas_logstore.core.streams.outbox import Completion, Outbox


class ExpiredSegments:
    def __init__(self, replicas: Replicas, outbox: Outbox, decompress: Decompress) -> None:
        self._replicas = replicas
        self._outbox = outbox
        self._decompress = decompress
        # Partitions whose first segment has to be read, in their order; the first of them is being read.
        self._waiting: dict[Partition, Callable[[Partition], None]] = {}
        self._is_reading = False

    def read(self, partition: Partition, check: Callable[[Partition], None]) -> None:
        """Read the first segment of the partition, if retention wants it; then `check` the partition again."""
        if partition.log.segments.first.record_times.is_wanted:
            self._waiting.setdefault(partition, check)
            self._begin()

    def _begin(self) -> None:
        while self._waiting and not self._is_reading:
            partition = next(iter(self._waiting))
            effect = self._next_part(partition)
            if effect is None:
                del self._waiting[partition]
                continue
            self._is_reading = True
            segment = partition.log.segments.first
            self._outbox.add_effect(
                effect,
                Completion(partial(self._on_read, partition, segment), partial(self._on_failed, partition)),
            )

    def _next_part(self, partition: Partition) -> ReadTimestampsEffect | None:
        """Return what is to be read next; None if nothing of it is written, or nothing is wanted any more."""
        log = partition.log
        if not partition.online or log not in self._replicas.by_log or log.is_truncating:
            return None
        segment = log.segments.first
        position = segment.record_times.upto_position
        end_position = min(segment.byte_count, log.state.written_position - segment.start_position)
        if not segment.record_times.is_wanted or position >= end_position:
            return None
        return ReadTimestampsEffect(segment.file, position, end_position, self._decompress)

    def _on_read(self, partition: Partition, segment: Segment, result: RecordTimestamps | Refusal) -> None:
        """A part has been read. What it was of may have been deleted, or replaced, meanwhile."""
        self._is_reading = False
        assert isinstance(result, RecordTimestamps | Refusal)
        is_readable = False
        if isinstance(result, RecordTimestamps):
            segment.record_times.add(result.latest_ms, result.end_position)
            is_readable = result.is_readable
        if not is_readable:
            segment.record_times.give_up()
        check = self._waiting.pop(partition, None)
        if check is not None and partition.online:
            check(partition)
        self._begin()

    def _on_failed(self, partition: Partition, error: DiskError) -> None:
        self._is_reading = False
        self._waiting.pop(partition, None)
        self._replicas.log_effect_failed(partition.log, error)
        self._begin()
