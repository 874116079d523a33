"""Appends that wait while a batch is opened on a worker, in order for each partition.

The first batch of a partition that has to be opened delays those behind it, whether they have to be opened or not;
other partitions continue. Few batches are opened at a time: each may take 64 MiB, and the writes need workers too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from barnabas.channel.messages import Append
from barnabas.ports.compression import Codecs
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.storage.batches.batch_opening import must_open, open_batch
from barnabas_logstore.core.storage.effect_results import Refusal
from barnabas_logstore.core.storage.effects import ValidateBatchEffect
from barnabas_logstore.core.streams.outbox import Completion, Outbox, refuse_failure
from barnabas_logstore.core.streams.streams import ExchangeStream

VALIDATIONS_MAX = 2
IN_PLACE_BYTES_MAX = 1024
"""A few uncompressed records are checked in less time than passing them to a worker takes."""

_ATTRIBUTES_POSITION = 22
_COMPRESSION_MASK = 0x07


@dataclass(slots=True, eq=False)
class WaitingAppend:
    """`wall_ms` is when it arrived: its timestamps are checked against that."""

    stream: ExchangeStream
    append: Append
    wall_ms: int


class BatchValidationQueue:
    def __init__(
        self,
        outbox: Outbox,
        codecs: Codecs,
        append_checked: Callable[[WaitingAppend, Partition, memoryview | Refusal], None],
        contain: Callable[[ExchangeStream, Append, Exception], None],
    ) -> None:
        """`append_checked` gets each append when its turn has come, and the records to append or why there are none.
        `contain` answers one that an unexpected exception has ended.
        """
        self._outbox = outbox
        self._codecs = codecs
        self._go_on = append_checked
        self._contain = contain
        self.lines: dict[Partition, deque[WaitingAppend]] = {}
        """The queues of partitions whose appends wait here; the first of each is being opened, or waits for a
        worker.
        """
        self._without_worker: deque[Partition] = deque()
        self._under_way: dict[ValidateBatchEffect, tuple[Partition, WaitingAppend]] = {}

    def add(self, waiting: WaitingAppend, partition: Partition) -> None:
        """Add an append whose batch may have to be opened, or that comes behind one that waits."""
        line = self.lines.get(partition)
        if line is not None:
            line.append(waiting)
            return
        self.lines[partition] = deque([waiting])
        self._advance(partition)

    def _advance(self, partition: Partition) -> None:
        """Advance the queue up to the next batch that needs a worker."""
        line = self.lines[partition]
        while line:
            waiting = line[0]
            records = memoryview(waiting.append.records)
            if waiting.stream.closed:
                line.popleft()
                continue
            opened: memoryview | Refusal | None = records
            try:
                if must_open(records, partition.log.config, waiting.wall_ms):
                    opened = self._opened(waiting, partition) if _is_quick(records) else None
            except Exception as error:
                line.popleft()
                self._contain(waiting.stream, waiting.append, error)
                continue
            if opened is None:
                self._without_worker.append(partition)
                self._begin()
                return
            line.popleft()
            self._go_on(waiting, partition, opened)
        del self.lines[partition]

    def _opened(self, waiting: WaitingAppend, partition: Partition) -> memoryview | Refusal:
        records = memoryview(waiting.append.records)
        return open_batch(records, _name(partition), partition.log.config, waiting.wall_ms, self._codecs)

    def _begin(self) -> None:
        while self._without_worker and len(self._under_way) < VALIDATIONS_MAX:
            partition = self._without_worker.popleft()
            line = self.lines.get(partition)
            if line is None:
                continue
            waiting = line[0]
            effect = ValidateBatchEffect(
                memoryview(waiting.append.records),
                _name(partition),
                partition.log.config,
                waiting.wall_ms,
                self._codecs,
            )
            self._under_way[effect] = (partition, waiting)
            self._outbox.add_effect(effect, Completion(partial(self._on_opened, effect), refuse_failure))

    def _on_opened(self, effect: ValidateBatchEffect, result: memoryview | Refusal) -> None:
        partition, waiting = self._under_way.pop(effect)
        line = self.lines.get(partition)
        # Otherwise it was answered meanwhile, with all that waited behind it.
        if line is not None and line and line[0] is waiting:
            line.popleft()
            assert isinstance(result, effect.result.types)
            if not waiting.stream.closed:
                self._go_on(waiting, partition, result)
            self._advance(partition)
        self._begin()

    def drop(self, partition: Partition) -> list[WaitingAppend]:
        """Drop everything that waits for the partition, including the append that is being opened."""
        line = self.lines.pop(partition, None)
        if line is None:
            return []
        if partition in self._without_worker:
            self._without_worker.remove(partition)
        return [waiting for waiting in line if not waiting.stream.closed]


def _is_quick(records: memoryview) -> bool:
    return len(records) <= IN_PLACE_BYTES_MAX and not records[_ATTRIBUTES_POSITION] & _COMPRESSION_MASK


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.partition}"
