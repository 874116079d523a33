"""Histories as a faultless cluster leaves them: what the checker must call clean, and what anomalies are planted in."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.faults.history import READER, Guarantee, Operation, Read, Type

_FINAL_READERS = 2
_STEP_NS = 1_000_000

RECORDS_PER_EPOCH = 20
"""Of each partition: then it has another leader."""


@dataclass(slots=True)
class Written:
    """A record in the log of a partition."""

    value: str
    epoch: int


@dataclass(slots=True)
class CleanCluster:
    """A log per partition, clients that write and read it in small random steps, and the history of it all."""

    random: random.Random
    partitions: int
    operations: list[Operation] = field(default_factory=list)
    logs: dict[int, list[Written]] = field(default_factory=dict)
    _now_ns: int = 0
    _numbers: dict[str, int] = field(default_factory=dict)
    _positions: dict[tuple[str, int], int] = field(default_factory=dict)

    def history(self, steps: int) -> list[Operation]:
        producers = {f"{guarantee.name.lower()}/1": guarantee for guarantee in Guarantee}
        readers = ["reader-0/1", "reader-1/1"]
        self.logs = {partition: [] for partition in range(self.partitions)}
        for proc, guarantee in producers.items():
            self._add(Operation(proc, Type.OK, "open", 0, value=guarantee, seed=1))
        for proc in readers:
            self._add(Operation(proc, Type.OK, "open", 0, value=READER))
            for partition in self.logs:
                self._assign(proc, partition, 0)
        for _ in range(steps):
            act = self.random.choices(("send", "poll", "list_offsets", "assign"), (10, 5, 2, 1))[0]
            partition = self.random.randrange(self.partitions)
            match act:
                case "send":
                    self._send(self.random.choice(list(producers)), partition)
                case "poll":
                    self._poll(self.random.choice(readers), partition, 10)
                case "list_offsets":
                    self._ask_for_end(self.random.choice(readers), partition)
                case _:
                    self._assign(self.random.choice(readers), partition, self._some_offset(partition))
        for number in range(_FINAL_READERS):
            self._read_everything(f"final-{number}/1")
        return self.operations

    def _add(self, operation: Operation) -> None:
        self._now_ns += self.random.randint(1, _STEP_NS)
        operation.ts = self._now_ns
        self.operations.append(operation)

    def _send(self, proc: str, partition: int) -> None:
        """Most are written and acknowledged; some are refused; of some it stays unknown whether they are written."""
        number = self._numbers[proc] = self._numbers.get(proc, 0) + 1
        value = f"t|{proc}|{number}"
        self._add(Operation(proc, Type.INVOKE, "send", 0, value=value, partition=partition))
        outcome = self.random.choices((Type.OK, Type.FAIL, Type.INFO, None), (16, 1, 1, 1))[0]
        log = self.logs[partition]
        if outcome is Type.OK or (outcome is not Type.FAIL and self.random.random() < 0.5):
            log.append(Written(value, len(log) // RECORDS_PER_EPOCH))
        if outcome is Type.OK:
            offset = len(log) - 1 if self.random.random() < 0.9 else None
            self._add(Operation(proc, Type.OK, "send", 0, value=value, partition=partition, offset=offset))
        elif outcome is not None:
            self._add(Operation(proc, outcome, "send", 0, value=value, partition=partition, error="REQUEST_TIMED_OUT"))

    def _poll(self, proc: str, partition: int, records_max: int) -> None:
        """One poll for each leader epoch among them."""
        log = self.logs[partition]
        start = self._positions.get((proc, partition), 0)
        end = min(len(log), start + records_max)
        while start < end:
            epoch = log[start].epoch
            reads: list[Read] = []
            while start < end and log[start].epoch == epoch:
                reads.append((start, log[start].value))
                start += 1
            self._add(Operation(proc, Type.OK, "poll", 0, value=reads, partition=partition, epoch=epoch))
        self._positions[proc, partition] = start

    def _ask_for_end(self, proc: str, partition: int) -> None:
        self._add(Operation(proc, Type.INVOKE, "list_offsets", 0, partition=partition))
        end_offset = len(self.logs[partition])
        epoch = end_offset // RECORDS_PER_EPOCH
        self._add(Operation(proc, Type.OK, "list_offsets", 0, partition=partition, offset=end_offset, epoch=epoch))

    def _assign(self, proc: str, partition: int, offset: int) -> None:
        self._positions[proc, partition] = offset
        self._add(Operation(proc, Type.OK, "assign", 0, partition=partition, offset=offset))

    def _some_offset(self, partition: int) -> int:
        return self.random.randint(0, len(self.logs[partition]))

    def _read_everything(self, proc: str) -> None:
        self._add(Operation(proc, Type.OK, "open", 0, value=READER))
        for partition, log in self.logs.items():
            self._add(Operation(proc, Type.INVOKE, "final", 0, partition=partition))
            self._ask_for_end(proc, partition)
            self._assign(proc, partition, 0)
            while self._positions[proc, partition] < len(log):
                self._poll(proc, partition, 25)
            self._add(Operation(proc, Type.OK, "final", 0, partition=partition, offset=len(log)))


def clean_history(seed: int, steps: int, partitions: int) -> list[Operation]:
    return CleanCluster(random.Random(seed), partitions).history(steps)
