"""Reads of a logstore's host: in place where the page cache has all of it, as `IoWorkers` does them, or by a worker.

In place the bytes are a view of a buffer of their own; a worker's are a view of what the disk has returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.ports.disk import Disk, DiskFile
from barnabas_logstore.core.storage.effect_execution import EffectResult, execute, execute_in_place
from barnabas_logstore.core.storage.effects import ReadBatchesEffect, ReadEffect, StorageEffect
from barnabas_logstore.core.storage.file_parts import UnopenedFile


@dataclass(slots=True)
class CachedFile:
    disk: Disk
    file: DiskFile
    is_cached: Callable[[], bool]
    """Is asked for each part that is read."""

    def read_at(self, position: int, length: int) -> memoryview:
        data = memoryview(bytearray(self.disk.read_at(self.file, position, length)))
        if len(data) < length or not self.is_cached():
            raise BlockingIOError
        return data

    def load_at(self, position: int, length: int) -> int:
        if self.disk.load(self.file, position, length) < length or not self.is_cached():
            raise BlockingIOError
        return length


def read_in_place(disk: Disk, effect: ReadEffect | ReadBatchesEffect, is_cached: Callable[[], bool]) -> EffectResult:
    """Raises BlockingIOError if its file is not open, or a part of it is not in the page cache."""
    file = effect.file if isinstance(effect, ReadEffect) else effect.part.file
    if isinstance(file, UnopenedFile):
        raise BlockingIOError
    return execute_in_place(effect, CachedFile(disk, file, is_cached))


def carry_out(disk: Disk, effect: StorageEffect, is_cached: Callable[[], bool] = lambda: True) -> EffectResult:
    """Carry out an effect, in place if it is a read of what the page cache has. Raises DiskError."""
    if isinstance(effect, ReadEffect | ReadBatchesEffect):
        try:
            return read_in_place(disk, effect, is_cached)
        except BlockingIOError:
            pass
    return execute(disk, effect)
