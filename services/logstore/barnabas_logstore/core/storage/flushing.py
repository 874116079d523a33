"""Carry out a `FlushEffect` and a `VolumeFlushEffect` on the disk."""

from __future__ import annotations

from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage.effects import FlushEffect, VolumeFlushEffect

NEW_SUFFIX = ".tmp"
"""The suffix of a checkpoint before it has its final name; a start removes leftovers."""


def flush(disk: Disk, effect: FlushEffect) -> None:
    """Flush file by file. Raises DiskError."""
    for replacement in effect.replacements:
        disk.replace_file(replacement.path, replacement.content)
    _write(disk, effect)
    for path in effect.files:
        disk.flush(disk.open(path))
    for directory in effect.directories:
        disk.flush_directory(directory)


def flush_together(disk: Disk, effect: VolumeFlushEffect) -> None:
    """Write everything that all these flushes have to write, then flush their volume. Raises DiskError.

    A checkpoint gets its name once its content is durable: a durable name without the content would be a torn
    checkpoint.
    """
    replacements = []
    for each in effect.flushes:
        for replacement in each.replacements:
            _write_new(disk, replacement.path + NEW_SUFFIX, replacement.content)
        replacements += each.replacements
        _write(disk, each)
    disk.flush_volume(effect.log_directory)
    if replacements:
        for replacement in replacements:
            disk.rename(replacement.path + NEW_SUFFIX, replacement.path)
        disk.flush_volume(effect.log_directory)


def _write(disk: Disk, effect: FlushEffect) -> None:
    for new in effect.new_files:
        _write_new(disk, new.path, new.content)
    for write in effect.writes:
        disk.write_at(disk.open(write.path, create=write.creates), write.position, (write.content,))


def _write_new(disk: Disk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    disk.truncate(file, 0)
    disk.write_at(file, 0, (content,))
