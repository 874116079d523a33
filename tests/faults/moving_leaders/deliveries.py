"""What producers report of each delivery, as the programs of all languages write it down, a file per producer.

    1763827200123 17 4711 90210             time (ms since the epoch), partition, sequence, offset; -1: not known
    1763827260123 17 4712 - TimeoutException     the same, and why it failed
    sent 17 4713                            at the end: how many were sent to the partition

A producer sends the sequences 0, 1, … to each partition; `sequence` counts per producer and partition and is not the
sequence number of the protocol. The value of a record is `p<producer>-<partition>-<sequence>`, filled up with blanks to
100 bytes: then a batch of 1000 bytes holds a few records, and each partition has several batches in flight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

NO_OFFSET: Final = -1
VALUE_BYTES: Final = 100
_VALUE: Final = re.compile(rb"p(\d+)-(\d+)-(\d+) *")


class ReportError(Exception):
    """A report that is not whole; the message says what is missing."""


class Delivery(NamedTuple):
    """One record, as it was reported."""

    sequence: int
    offset: int
    """NO_OFFSET where the client does not know it, or the delivery failed."""
    error: str
    """The client's name of it; empty where the record was acknowledged."""
    at_ms: int


class Sender(NamedTuple):
    """One producer and one of its partitions."""

    producer: int
    partition: int


@dataclass(slots=True)
class Deliveries:
    """Of one sender, in the order in which they were reported."""

    sent: int = 0
    reported: list[Delivery] = field(default_factory=list)


def value_of(sender: Sender, sequence: int) -> bytes:
    return (b"p%d-%d-%d" % (*sender, sequence)).ljust(VALUE_BYTES)


def parse_value(value: bytes) -> tuple[Sender, int] | None:
    """The sender and the sequence; None where it is none of our values."""
    found = _VALUE.fullmatch(value)
    return None if found is None else (Sender(int(found[1]), int(found[2])), int(found[3]))


def read_reports(directory: Path, producers: int, partitions: int) -> dict[Sender, Deliveries]:
    """The reports of all producers. Raises ReportError, and FileNotFoundError where one wrote none."""
    deliveries: dict[Sender, Deliveries] = {}
    for producer in range(producers):
        path = directory / f"producer-{producer}.txt"
        with path.open() as lines:
            own = parse_report(producer, lines)
        if len(own) != partitions:
            raise ReportError(f"{path} says for {len(own)} of {partitions} partitions how many records were sent")
        deliveries.update(own)
    return deliveries


def parse_report(producer: int, lines: Iterable[str]) -> dict[Sender, Deliveries]:
    """One producer's; only partitions with their final number of sent records are in it."""
    reported: dict[int, list[Delivery]] = {}
    sent: dict[int, int] = {}
    for words in _words(lines):
        if words[0] == "sent":
            sent[int(words[1])] = int(words[2])
            continue
        at_ms, partition, sequence, offset, *error = words
        delivery = (
            Delivery(int(sequence), NO_OFFSET, error[0], int(at_ms))
            if error
            else Delivery(int(sequence), max(NO_OFFSET, int(offset)), "", int(at_ms))
        )
        reported.setdefault(int(partition), []).append(delivery)
    return {
        Sender(producer, partition): Deliveries(count, reported.get(partition, [])) for partition, count in sent.items()
    }


def _words(lines: Iterable[str]) -> Iterator[list[str]]:
    for line in lines:
        words = line.split()
        if words:
            yield words
