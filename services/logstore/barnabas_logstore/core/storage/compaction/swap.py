"""Replace segments by the cleaned ones made of them; Kafka's protocol, with every step durable.

1. `.cleaned` → `.swap`, the log last: from here on the new segment counts, whatever happens.
2. The old files → `.deleted`; they are removed after file.delete.delay.ms.
3. `.swap` → the names in the log, the log last.

A start that finds `<base offset>.log.swap` finishes what is left of 2 and 3 (`finish_swaps`), and drops `.cleaned`. The
names are flushed after each step: the order of renames is not the order in which they reach the disk.

In memory the log changes before its files do, in the core and at once. Reads of the new segment use its files as they
were opened under their first names; reads in progress on an old one are planned again.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage.compaction.orders import CleanedSegment
from barnabas_logstore.core.storage.effects import CLEANED_SUFFIX, DELETED_SUFFIX, Rename, SwapEffect
from barnabas_logstore.core.storage.segment.log_segments import LogSegments
from barnabas_logstore.core.storage.segment.scan import scan_batches
from barnabas_logstore.core.storage.segment.segment import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    file_name,
)
from barnabas_logstore.core.storage.segment.transaction_index import TRANSACTION_INDEX_SUFFIX

SWAP_SUFFIX = ".swap"
_LOG_LAST = (*INDEX_SUFFIXES, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX)


def plan_swap(
    disk: Disk, directory: str, config: TopicConfig, segments: LogSegments, cleaned: CleanedSegment
) -> tuple[SwapEffect, Segment] | None:
    """Change the log in memory; the effect does the same on the disk. Return it with the new segment; None if the
    segments it was made of do not all exist any more. Raises DiskError.
    """
    replaced = segments.closed_neighbours(cleaned.replaced)
    if replaced is None:
        return None
    segment = Segment(disk, directory, cleaned.base_offset, 0, config, cleaned.byte_count, name_suffix=CLEANED_SUFFIX)
    segment.hold_files()
    segments.replace(replaced, segment)
    for old in replaced:
        old.is_retired = True
    old_names = [file_name(offset, suffix) for offset in cleaned.replaced for suffix in _LOG_LAST]
    # Snapshots of the producers are named after the segments that begin there.
    old_names += [file_name(offset, SNAPSHOT_SUFFIX) for offset in cleaned.replaced[1:]]
    new_names = [file_name(cleaned.base_offset, suffix) for suffix in _LOG_LAST]
    phases = [
        [_rename(name + CLEANED_SUFFIX, name + SWAP_SUFFIX) for name in new_names],
        [_rename(name, name + DELETED_SUFFIX) for name in old_names],
        [_rename(name + SWAP_SUFFIX, name) for name in new_names],
    ]
    return SwapEffect(directory, phases), segment


def _rename(source: str, target: str) -> Rename:
    """Only logs must exist: a log may have been copied without its indexes, and few have aborted transactions."""
    return Rename(source, target, may_be_absent=LOG_SUFFIX not in source)


def finish_swaps(disk: Disk, directory: str, byte_counts: dict[str, int]) -> None:
    """Finish what a crash has interrupted, before any of the log is opened.

    `byte_counts` are the files in `directory` with their sizes, and are updated.
    """
    swaps = sorted(name for name in byte_counts if name.endswith(LOG_SUFFIX + SWAP_SUFFIX) and _offset_in(name) >= 0)
    for swap in swaps:
        _finish_swap(disk, directory, byte_counts, swap)
    # Indexes of a segment that did not get that far: its log is still `.cleaned`.
    leftovers = [name for name in byte_counts if name.endswith(SWAP_SUFFIX)]
    for name in leftovers:
        disk.remove(f"{directory}/{name}")
        del byte_counts[name]
    if leftovers:
        disk.flush_directory(directory)


def _finish_swap(disk: Disk, directory: str, byte_counts: dict[str, int], swap: str) -> None:
    base_offset = end_offset = _offset_in(swap)
    for _, header in scan_batches(disk, disk.open(f"{directory}/{swap}"), 0, byte_counts[swap]):
        end_offset = header.next_offset
    old_names = [
        name for name in byte_counts if name.endswith(_LOG_LAST) and base_offset <= _offset_in(name) < end_offset
    ]
    for name in old_names:
        disk.remove(f"{directory}/{name}")
        del byte_counts[name]
    # No old segment may come back besides the new one.
    disk.flush_directory(directory)
    for suffix in _LOG_LAST:
        name = file_name(base_offset, suffix)
        if name + SWAP_SUFFIX in byte_counts:
            disk.rename(f"{directory}/{name}{SWAP_SUFFIX}", f"{directory}/{name}")
            byte_counts[name] = byte_counts.pop(name + SWAP_SUFFIX)
    disk.flush_directory(directory)


def _offset_in(name: str) -> int:
    """Return the base offset that a file is named after; -1: none."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdecimal() else -1
