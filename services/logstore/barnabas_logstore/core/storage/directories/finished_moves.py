"""What a start finds in two log directories: logs whose move a crash has interrupted at its very end
(`log_copy`), and what a copied or put back directory has left there twice, which only an operator can decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.directories.log_copy import MOVED_FROM, read_origin
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition


def without_moved(
    disk: Disk, directories: Sequence[LogDirectory], partitions: Sequence[OpenedPartition], now_ms: int
) -> tuple[list[OpenedPartition], list[str]]:
    """Delete the old directory of each log that has been moved. Return the partitions that remain, without those of a
    log directory that failed, which is offline then; and the directories deleted. Raises DiskError.
    """
    by_path = {directory.path: directory for directory in directories}
    kept = {each.opened.log.directory: each for each in partitions}
    ends = [(each.topic_partition, path, each.opened.log.log_end_offset) for path, each in kept.items()]
    old = finish_moves(disk, ends)
    for path in old:
        by_path[path.rpartition("/")[0]].delete_old(kept.pop(path).topic_partition, now_ms)
    remaining = [each for path, each in kept.items() if by_path[path.rpartition("/")[0]].error is None]
    return remaining, old


def first_found_twice(partitions: Sequence[OpenedPartition]) -> tuple[str, str] | None:
    """Return the two directories of a partition that is in two log directories."""
    seen: dict[TopicPartition, str] = {}
    for each in partitions:
        path = each.opened.log.directory
        other = seen.setdefault(each.topic_partition, path)
        if other != path:
            return path, other
    return None


def finish_moves(disk: Disk, found: Sequence[tuple[TopicPartition, str, int]]) -> list[str]:
    """Given (partition, its directory, its log end offset) found at a start in all log directories, return the
    directories to delete, of moves that a crash interrupted at the very end. The others drop their origin. Raises
    DiskError.
    """
    places = {(name, directory.rpartition("/")[0]): (directory, end) for name, directory, end in found}
    old = []
    for name, directory, end_offset in found:
        origin = read_origin(disk, directory)
        if origin is None:
            continue
        before, before_end_offset = places.get((name, origin.log_directory), (directory, end_offset))
        if before != directory:
            old.append(before if before_end_offset <= end_offset else directory)
        else:
            disk.remove(f"{directory}/{MOVED_FROM}")
            disk.flush_directory(directory)
    return old
