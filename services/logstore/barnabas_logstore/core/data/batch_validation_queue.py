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
            # One whose worker could not be asked for, as something unexpected came between, is the next chance of all.
            self._begin()
            return
        self.lines[partition] = deque([waiting])
        self._advance(partition)

    def _advance(self, partition: Partition) -> None:
        """Advance the queue up to the next batch that needs a worker. Where something raises that is not contained,
        what comes behind it waits for a worker: no later append may find a queue that nothing advances.
        """
        line = self.lines[partition]
        try:
            while line:
                if not self._advance_one(partition, line):
                    self._without_worker.append(partition)
                    break
        except Exception:
            if line and self.lines.get(partition) is line:
                self._without_worker.append(partition)
            raise
        finally:
            if not line and self.lines.get(partition) is line:
                del self.lines[partition]
        self._begin()

    def _advance_one(self, partition: Partition, line: deque[WaitingAppend]) -> bool:
        """Return whether the first of the queue needed no worker."""
        waiting = line[0]
        if waiting.stream.closed:
            line.popleft()
            return True
        records = memoryview(waiting.append.records)
        opened: memoryview | Refusal = records
        try:
            if must_open(records, partition.log.config, waiting.wall_ms):
                if not _is_quick(records):
                    return False
                opened = self._opened(waiting, partition)
        except Exception as error:
            line.popleft()
            self._contain(waiting.stream, waiting.append, error)
            return True
        line.popleft()
        self._go_on(waiting, partition, opened)
        return True

    def _opened(self, waiting: WaitingAppend, partition: Partition) -> memoryview | Refusal:
        records = memoryview(waiting.append.records)
        return open_batch(records, _name(partition), partition.log.config, waiting.wall_ms, self._codecs)

    def _begin(self) -> None:
        while self._without_worker and len(self._under_way) < VALIDATIONS_MAX:
            partition = self._without_worker[0]
            line = self.lines.get(partition)
            if line:
                self._open_on_worker(partition, line[0])
            self._without_worker.popleft()

    def _open_on_worker(self, partition: Partition, waiting: WaitingAppend) -> None:
        effect = ValidateBatchEffect(
            memoryview(waiting.append.records),
            _name(partition),
            partition.log.config,
            waiting.wall_ms,
            self._codecs,
        )
        self._outbox.add_effect(effect, Completion(partial(self._on_opened, effect), refuse_failure))
        self._under_way[effect] = (partition, waiting)

    def _on_opened(self, effect: ValidateBatchEffect, result: memoryview | Refusal) -> None:
        under_way = self._under_way.pop(effect, None)
        if under_way is None:
            return  # Something raised as it was asked for: it was asked for again.
        partition, waiting = under_way
        line = self.lines.get(partition)
        # Otherwise it was answered meanwhile, with all that waited behind it.
        if line and line[0] is waiting:
            line.popleft()
            assert isinstance(result, effect.result.types)
            try:
                if not waiting.stream.closed:
                    self._go_on(waiting, partition, result)
            finally:
                if self.lines.get(partition) is line:
                    self._advance(partition)
        self._begin()

    def drop(self, partition: Partition) -> list[WaitingAppend]:
        """Drop everything that waits for the partition, including the append that is being opened."""
        line = self.lines.pop(partition, None)
        if line is None:
            return []
        if partition in self._without_worker:
            self._without_worker.remove(partition)
        dropped = [waiting for waiting in line if not waiting.stream.closed]
        line.clear()  # the queue may be about to advance
        return dropped


def _is_quick(records: memoryview) -> bool:
    return len(records) <= IN_PLACE_BYTES_MAX and not records[_ATTRIBUTES_POSITION] & _COMPRESSION_MASK


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.partition}"
