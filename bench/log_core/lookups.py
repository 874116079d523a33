"""Lookups by offset and by time in indexes of 100 to 10,000,000 entries, mapped from their files.

A binary search takes a step more per doubling: the time goes up by the same amount in every decade, as long as the
pages are in memory (caches of the processor make the last decades steeper).
"""

from __future__ import annotations

import statistics
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from barnabas_logstore.core.storage.segment.offset_index import OffsetIndex
from barnabas_logstore.core.storage.segment.time_index import TimeIndex
from barnabas_logstore.shell.posix_disk import PosixDisk

_LOOKUPS: Final = 20_000
_ROUNDS: Final = 5
_OFFSETS_PER_ENTRY: Final = 10
_BYTES_PER_ENTRY: Final = 400
_MS_PER_ENTRY: Final = 3
_BASE_OFFSET: Final = 1_000_000
_BASE_MS: Final = 1_700_000_000_000


@dataclass(slots=True)
class Lookups:
    """Nanoseconds of CPU of a lookup, the median of rounds."""

    entries: int
    by_offset_ns: float
    by_time_ns: float


def measure_lookups(path: Path, entries_max: int) -> list[Lookups]:
    results = []
    entries = 100
    while entries <= entries_max:
        results.append(_measure(path, entries))
        entries *= 10
    return results


def _measure(path: Path, entries: int) -> Lookups:
    disk = PosixDisk()
    path.mkdir(parents=True, exist_ok=True)
    offset_file, time_file = path / "lookups.index", path / "lookups.timeindex"
    with offset_file.open("wb") as offsets, time_file.open("wb") as times:
        for start in range(0, entries, 100_000):
            numbers = range(start, min(entries, start + 100_000))
            pack = OffsetIndex.entry_format.pack
            offsets.write(b"".join(pack(number * _OFFSETS_PER_ENTRY, number * _BYTES_PER_ENTRY) for number in numbers))
            time_pack = TimeIndex.entry_format.pack
            times.write(
                b"".join(
                    time_pack(_BASE_MS + number * _MS_PER_ENTRY, number * _OFFSETS_PER_ENTRY) for number in numbers
                )
            )
    offset_index = OffsetIndex(str(offset_file), _BASE_OFFSET, disk.map(disk.open(str(offset_file))))
    time_index = TimeIndex(str(time_file), _BASE_OFFSET, disk.map(disk.open(str(time_file))))
    assert len(offset_index) == len(time_index) == entries
    random = Random(entries)
    chosen = [random.randrange(entries) for _ in range(_LOOKUPS)]
    offsets_asked = [_BASE_OFFSET + number * _OFFSETS_PER_ENTRY for number in chosen]
    times_asked = [_BASE_MS + number * _MS_PER_ENTRY for number in chosen]
    by_offset, by_time = [], []
    for _ in range(_ROUNDS):
        by_offset.append(_nanoseconds(offset_index.position_before, offsets_asked))
        by_time.append(_nanoseconds(time_index.offset_before, times_asked))
    sample = chosen[0]
    assert offset_index.position_before(_BASE_OFFSET + sample * _OFFSETS_PER_ENTRY) == sample * _BYTES_PER_ENTRY
    offset_file.unlink()
    time_file.unlink()
    return Lookups(entries, statistics.median(by_offset), statistics.median(by_time))


def _nanoseconds(lookup: object, asked: list[int]) -> float:
    assert callable(lookup)
    began = time.process_time_ns()
    for value in asked:
        lookup(value)
    return (time.process_time_ns() - began) / len(asked)


def index_bytes(entries: int) -> int:
    """Of both files together."""
    return entries * (struct.calcsize(">II") + struct.calcsize(">qI"))
