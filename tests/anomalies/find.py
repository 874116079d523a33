"""Find the anomalies of a history: those of logs in one pass, those of isolation by cycles of dependencies.

Everything but the search for a shortest cycle, once per component, takes time in proportion to the history.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum

from tests.anomalies.graph import DependencyGraph, Edge
from tests.anomalies.history import Outcome, Partition, Read, TransactionHistory


class Kind(Enum):
    G0 = "G0: writes of transactions are interleaved in a cycle"
    G1A = "G1a: a record of an aborted transaction is read"
    G1B = "G1b: part of what a transaction appended to a partition is read, and what came after"
    G1C = "G1c: transactions depend on each other in a cycle of writes and reads"
    G_SINGLE = "G-single: a transaction misses part of another's effects, of which it sees others"
    G2_ITEM = "G2-item: transactions miss each other's writes in a cycle"
    ABORTED_IN_LOG = "a record of an aborted transaction is among what is committed"
    PART_OF_A_TRANSACTION = "part of a transaction is committed"
    LOST = "a record of a committed transaction is lost"
    DOUBLED = "a record is there twice"
    UNKNOWN_VALUE = "a record that no transaction has appended"
    CHANGED = "an offset has another value than the one that was read there"
    SKIPPED = "a read leaves out a committed record"
    BACKWARDS = "a read goes backwards"


KAFKA = frozenset(Kind) - {Kind.G0, Kind.G1C, Kind.G_SINGLE, Kind.G2_ITEM}
"""What Kafka's transactions never show: they promise no order between partitions."""


@dataclass(slots=True, frozen=True)
class Anomaly:
    """`transactions`: their names, for a cycle in its order, the first one repeated."""

    kind: Kind
    transactions: tuple[str, ...]
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value}: {' -> '.join(self.transactions)} {self.where}".rstrip()


def find_anomalies(history: TransactionHistory) -> list[Anomaly]:
    """Return all anomalies of logs and reads, and for each component of the dependencies the worst cycle."""
    return _Search(history).run()


class _Search:
    def __init__(self, history: TransactionHistory) -> None:
        self._history = history
        self._transactions = history.transactions
        self._found: list[Anomaly] = []
        self._writer: dict[tuple[Partition, str], int] = {}
        """By partition and value."""
        self._offsets: dict[tuple[Partition, str], int] = {}
        self._ordered = {partition: sorted(log) for partition, log in history.logs.items()}
        self._graph = DependencyGraph(len(self._transactions))

    def run(self) -> list[Anomaly]:
        for number, transaction in enumerate(self._transactions):
            for append in transaction.appends:
                key = append.partition, append.value
                if key in self._writer:
                    self._add(Kind.DOUBLED, append.partition, append.value, number, self._writer[key])
                self._writer[key] = number
        self._look_at_logs()
        self._look_at_ends()
        for number, transaction in enumerate(self._transactions):
            for read in transaction.reads:
                self._look_at_read(number, read)
        self._look_for_cycles()
        return self._found

    def _add(self, kind: Kind, partition: Partition, what: object, *numbers: int) -> None:
        names = tuple(self._transactions[each].name for each in numbers)
        self._found.append(Anomaly(kind, names, f"{partition[0]}-{partition[1]}: {what}"))

    # --- logs ---------------------------------------------------------------------------------------------------------

    def _look_at_logs(self) -> None:
        for partition, log in self._history.logs.items():
            before: int | None = None
            for offset in self._ordered[partition]:
                value = log[offset]
                if (partition, value) in self._offsets:
                    self._add(Kind.DOUBLED, partition, f"{value} at {self._offsets[partition, value]} and {offset}")
                self._offsets.setdefault((partition, value), offset)
                writer = self._writer.get((partition, value))
                if writer is None:
                    self._add(Kind.UNKNOWN_VALUE, partition, f"{value} at {offset}")
                    continue
                if self._transactions[writer].outcome is Outcome.ABORTED:
                    self._add(Kind.ABORTED_IN_LOG, partition, f"{value} at {offset}", writer)
                if before is not None:
                    self._graph.add(before, writer, Edge.WW)
                before = writer

    def _look_at_ends(self) -> None:
        """All of a transaction is there, or nothing; all, if it is committed."""
        for number, transaction in enumerate(self._transactions):
            missing = [each for each in transaction.appends if (each.partition, each.value) not in self._offsets]
            # Below the log start records are deleted, and a missing record has no offset to compare with it.
            missing = [each for each in missing if not self._history.starts.get(each.partition)]
            if not missing:
                continue
            if transaction.outcome is Outcome.COMMITTED:
                self._add(Kind.LOST, missing[0].partition, missing[0].value, number)
            elif transaction.outcome is Outcome.UNKNOWN and len(missing) < len(transaction.appends):
                self._add(Kind.PART_OF_A_TRANSACTION, missing[0].partition, f"{missing[0].value} is not", number)

    # --- reads --------------------------------------------------------------------------------------------------------

    def _look_at_read(self, number: int, read: Read) -> None:
        log, ordered = self._history.logs.get(read.partition, {}), self._ordered.get(read.partition, [])
        position = bisect_left(ordered, max(read.begin, self._history.starts.get(read.partition, 0)))
        newest = -1
        read_of: dict[int, list[str]] = {}
        for offset, value in read.records:
            if offset <= newest:
                self._add(Kind.BACKWARDS, read.partition, f"{offset} after {newest}", number)
                continue
            newest = offset
            writer = self._writer.get((read.partition, value))
            if writer is None:
                self._add(Kind.UNKNOWN_VALUE, read.partition, f"{value} at {offset}", number)
                continue
            read_of.setdefault(writer, []).append(value)
            self._graph.add(writer, number, Edge.WR)
            if self._transactions[writer].outcome is Outcome.ABORTED:
                self._add(Kind.G1A, read.partition, f"{value} at {offset}", number, writer)
                continue
            if offset in log and log[offset] != value:
                self._add(Kind.CHANGED, read.partition, f"{offset} is {log[offset]}, and was {value}", number)
            while position < len(ordered) and ordered[position] < offset:
                self._add(Kind.SKIPPED, read.partition, f"{ordered[position]}, {offset} is read", number)
                position += 1
            if position < len(ordered) and ordered[position] == offset:
                position += 1
        if position < len(ordered):
            following = self._writer.get((read.partition, log[ordered[position]]))
            if following is not None:
                self._graph.add(number, following, Edge.RW)
        self._look_for_parts(number, read, read_of)

    def _look_for_parts(self, number: int, read: Read, read_of: dict[int, list[str]]) -> None:
        """G1b: what was read ends beyond a transaction, and has only some of it."""
        if not read.records:
            return
        begin, end = read.begin, read.records[-1][0]
        for writer, values in read_of.items():
            appended = [each.value for each in self._transactions[writer].appends if each.partition == read.partition]
            if len(values) == len(appended) or self._transactions[writer].outcome is Outcome.ABORTED:
                continue
            offsets = {value: self._offsets.get((read.partition, value)) for value in appended}
            lacking = [
                value
                for value, offset in offsets.items()
                if value not in values and (offset is None or begin <= offset < end)
            ]
            if lacking and not self._history.starts.get(read.partition):
                self._add(Kind.G1B, read.partition, f"{values[0]} without {lacking[0]}", number, writer)

    # --- cycles -------------------------------------------------------------------------------------------------------

    def _look_for_cycles(self) -> None:
        """Of the transactions in a cycle only the worst kind is reported."""
        graph = self._graph
        reads_too = Edge.WW | Edge.WR
        everything = reads_too | Edge.RW
        reported: set[int] = set()
        for kind, first, rest, kinds in (
            (Kind.G0, Edge.WW, Edge.WW, Edge.WW),
            (Kind.G1C, Edge.WR, reads_too, reads_too),
            (Kind.G_SINGLE, Edge.RW, reads_too, everything),
            (Kind.G2_ITEM, Edge.RW, everything, everything),
        ):
            for component in list(graph.components(kinds)):
                if reported.isdisjoint(component):
                    cycle = graph.cycle(component, first, rest)
                    if cycle is not None:
                        reported.update(component)
                        self._found.append(Anomaly(kind, tuple(self._transactions[each].name for each in cycle)))
