"""Planted faults of the clean-shutdown marker, of checkpoints and of names."""

from __future__ import annotations

from typing import Any

from barnabas_logstore.core.storage.directories import log_directory
from barnabas_logstore.core.storage.directories.log_directory import ClosingFlush, LogDirectory
from barnabas_logstore.core.storage.effects import FlushEffect
from barnabas_logstore.core.storage.log.features.log_flushes import LogFlushes
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.crash.mutants.planting import Plant, replace
from tests.sim.disk_model import DiskModel


def marker_stays_at_the_start() -> None:
    def take_marker(self: LogDirectory) -> None:
        self.was_shut_down_cleanly = self._disk.exists(f"{self.path}/.kafka_cleanshutdown")

    replace(LogDirectory, "_take_marker", take_marker)


def marker_is_removed_and_not_flushed() -> None:
    def take_marker(self: LogDirectory) -> None:
        path = f"{self.path}/.kafka_cleanshutdown"
        if self._disk.exists(path):
            self.was_shut_down_cleanly = True
            self._disk.remove(path)

    replace(LogDirectory, "_take_marker", take_marker)


def marker_is_written_whatever_is_durable() -> None:
    original = LogDirectory.closing_flushes

    def closing_flushes(self: LogDirectory) -> list[ClosingFlush]:
        for closing in original(self):
            for log, flush in closing.flushes:
                log.on_flushed(flush)
        return []

    replace(LogDirectory, "closing_flushes", closing_flushes)


def checkpoints_are_not_flushed() -> None:
    def replace_file(self: DiskModel, path: str, content: bytes) -> None:
        file = self.open(f"{path}.tmp", create=True)
        self.truncate(file, 0)
        self.write_at(file, 0, (content,))
        self.rename(f"{path}.tmp", path)
        self.flush_directory(path.rpartition("/")[0])

    replace(DiskModel, "replace_file", replace_file)


def checkpoints_are_written_in_place() -> None:
    def replace_file(self: DiskModel, path: str, content: bytes) -> None:
        file = self.open(path, create=True)
        self.truncate(file, 0)
        self.write_at(file, 0, (content,))
        self.flush(file)
        self.flush_directory(path.rpartition("/")[0])

    replace(DiskModel, "replace_file", replace_file)


def recovery_points_of_before_the_crash_stay() -> None:
    replace(log_directory, "execute", lambda disk, effect: b"")


def log_directory_has_no_name() -> None:
    def make_durably(disk: Any, path: str) -> None:
        if not disk.exists(path):
            disk.make_directory(path)

    replace(log_directory, "make_durably", make_durably)


def names_in_a_log_are_not_flushed() -> None:
    original = LogFlushes.begin

    def begin(self: LogFlushes, upto_offset: int) -> FlushEffect:
        effect = original(self, upto_offset)
        effect.directories = []
        return effect

    replace(LogFlushes, "begin", begin)


def topic_id_is_not_flushed() -> None:
    replace(PartitionLog, "flush_along", lambda self, path, content: None)


PLANTS: tuple[Plant, ...] = (
    marker_stays_at_the_start,
    marker_is_removed_and_not_flushed,
    marker_is_written_whatever_is_durable,
    checkpoints_are_not_flushed,
    checkpoints_are_written_in_place,
    recovery_points_of_before_the_crash_stay,
    log_directory_has_no_name,
    names_in_a_log_are_not_flushed,
    topic_id_is_not_flushed,
)
