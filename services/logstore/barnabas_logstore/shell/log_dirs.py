"""Take the log directories into use: lock them against a second process, check their owner, load them."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk, DiskError
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.logs import get_logger
from barnabas_logstore.core.storage.checkpoints import DirectoryIdentity, uuid_to_text
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal
from barnabas_logstore.core.storage.directories.finished_moves import first_found_twice, without_moved
from barnabas_logstore.core.storage.directories.log_directory import (
    LogDirectory,
    OpenedPartition,
    parse_partition_directory,
)
from barnabas_logstore.shell.known_directories import KNOWN_LOG_DIRS, missed, note_directories
from barnabas_logstore.shell.posix_disk import disk_error

# Kafka's own name for it.
LOCK_FILE = ".lock"
PROGRESS_MS = 2_000

_log = get_logger("logstore.log_dirs")


class StartRefused(Exception):  # noqa: N818  (an outcome that ends the process with its one line)
    """This logstore can't start; the message says why."""


@dataclass(slots=True, frozen=True)
class LoadedDirectories:
    """All directories, including those that could not be opened and are offline from the start
    (`LogDirectory.error`).
    """

    directories: list[LogDirectory]
    partitions: list[OpenedPartition]

    @property
    def directory_id(self) -> str:
        """One id for all directories, which changes when a disk is replaced."""
        sound = [directory for directory in self.directories if directory.error is None]
        return ",".join(sorted(uuid_to_text(directory.identity.directory_id) for directory in sound))


def allow_open_files() -> None:
    """Files with unflushed writes stay open, three per partition: the usual soft limit of 1024 would only allow a few
    hundred partitions.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class DirectoryLocks:
    """Locks out every other process from the directories, as long as this one lives."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Creates missing directories. Raises StartRefused: another process uses one, or all are inaccessible.

        A directory that is inaccessible, while others are not, is in `failed`, for `load_directories`.
        """
        self.failed: dict[str, DiskError] = {}
        self._descriptors: list[int] = []
        reasons: list[str] = []
        for path in paths:
            try:
                os.makedirs(path, exist_ok=True)
                descriptor = os.open(f"{path}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                self.failed[path] = disk_error(error, "lock", path)
                reasons.append(f"log.dirs={path}: {error.strerror}")
                continue
            self._descriptors.append(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StartRefused(f"log.dirs={path}: another process is using it") from error
        if not self._descriptors:
            raise StartRefused("; ".join(reasons))

    def close(self) -> None:
        """Release the locks."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


def load_directories(
    disk: Disk,
    paths: Sequence[str],
    cluster_id: str,
    node_id: int,
    kernel_boot_id: str,
    defaults: TopicConfig,
    stopping: threading.Event,
    threads: int,
    failed: Mapping[str, DiskError],
) -> LoadedDirectories:
    """Open every partition, including recovery; it may take minutes, and `stopping` ends it. Raises StartRefused.

    Directories are loaded concurrently, each by `threads`. One whose disk fails, or has failed before (`failed`), is
    offline; if all are, the start is refused.
    """

    def load(path: str) -> tuple[LogDirectory, list[OpenedPartition]]:
        try:
            if path in failed:
                raise failed[path]
            directory = _open(disk, path, cluster_id, node_id, kernel_boot_id)
            return directory, _load(disk, directory, defaults, stopping, threads)
        except DiskError as error:
            _log.error("log directory offline", directory=path, error=str(error))
            offline = LogDirectory(disk, path, DirectoryIdentity(cluster_id, node_id, bytes(16)), lambda: "")
            offline.error = error
            return offline, []

    with ThreadPoolExecutor(len(paths), "log-dir") as executor:
        loaded = list(executor.map(load, paths))
    directories = [directory for directory, _ in loaded]
    partitions = [partition for _, of_directory in loaded for partition in of_directory]
    errors = [f"log.dirs={each.path}: {each.error}" for each in directories if each.error is not None]
    if len(errors) == len(directories):
        raise StartRefused("; ".join(errors))
    partitions, old = without_moved(disk, directories, partitions, monotonic_ms())
    for path in old:
        _log.warning("this partition has been moved: its old directory is deleted", directory=path)
    twice = first_found_twice(partitions)
    if twice is not None:
        raise StartRefused(f"{twice[0]} and {twice[1]} are the same partition: move one of them away")
    directories += _missed(disk, directories, cluster_id, node_id)
    return LoadedDirectories(directories, partitions)


def _missed(disk: Disk, directories: Sequence[LogDirectory], cluster_id: str, node_id: int) -> list[LogDirectory]:
    """Return the directories that this logstore has had and that log.dirs lacks, as offline ones."""
    try:
        paths = note_directories(disk, directories)
    except DiskError as error:
        # A directory without free space: that is reported as soon as something is written there.
        _log.warning("the list of log directories can't be written", error=str(error))
        return []
    found = []
    for path in paths:
        _log.error(
            "log.dirs lacks a directory that this logstore has had: its partitions are offline until it is back; "
            f"to give it up, remove its line from {KNOWN_LOG_DIRS} in every other one",
            directory=path,
        )
        directory = LogDirectory(disk, path, DirectoryIdentity(cluster_id, node_id, bytes(16)), lambda: "")
        directory.error = missed(path)
        found.append(directory)
    return found


def _open(disk: Disk, path: str, cluster_id: str, node_id: int, kernel_boot_id: str) -> LogDirectory:
    directory = LogDirectory.open(
        disk,
        path,
        cluster_id=cluster_id,
        node_id=node_id,
        kernel_boot_id=kernel_boot_id,
        new_directory_id=uuid.uuid4().bytes,
        unique_name=lambda: uuid.uuid4().hex,
    )
    if isinstance(directory, DirectoryRefusal):
        raise StartRefused(directory.message)
    return directory


def _load(
    disk: Disk, directory: LogDirectory, defaults: TopicConfig, stopping: threading.Event, threads: int
) -> list[OpenedPartition]:
    names = [entry.name for entry in disk.list(directory.path) if entry.is_directory]
    total = sum(parse_partition_directory(name) is not None for name in names)
    began_ms = logged_ms = monotonic_ms()
    begun = 0

    def config_of(_topic: str) -> TopicConfig:
        """Called once per partition, before it is opened: the place to log progress."""
        nonlocal begun, logged_ms
        if stopping.is_set():
            raise StartRefused("stopped while the logs were being loaded")
        now_ms = monotonic_ms()
        if now_ms - logged_ms >= PROGRESS_MS:
            logged_ms = now_ms
            _log.info("loading logs", directory=directory.path, loaded=begun, total=total)
        begun += 1
        return defaults

    with ThreadPoolExecutor(threads, "recovery") as executor:
        loaded = directory.load(config_of, began_ms, executor.map)
    kept = [partition for partition in loaded if _is_ours(directory, partition)]
    if len(kept) < len(loaded):
        directory.forget_gone()
    _log.info(
        "logs loaded",
        directory=directory.path,
        partitions=len(kept),
        clean_shutdown=directory.was_shut_down_cleanly,
        recovered_bytes=sum(partition.opened.scanned_bytes for partition in kept),
        dropped_bytes=sum(partition.opened.dropped_bytes for partition in kept),
        took_ms=monotonic_ms() - began_ms,
    )
    for partition in kept:
        if partition.opened.has_wrong_epochs:
            topic, number = partition.topic_partition
            _log.warning(
                "leader-epoch-checkpoint was wrong: epochs are taken from the batches", topic=topic, partition=number
            )
    if kept and directory.boot.may_lack_records:
        _log.warning(
            "the machine stopped, a flush failed, or a log is damaged: the last records may be lost",
            directory=directory.path,
        )
    return kept


def _is_ours(directory: LogDirectory, partition: OpenedPartition) -> bool:
    """Without its topic id the owner of these records is unknown: another topic of that name may exist by now."""
    if partition.topic_id is not None:
        return True
    topic, number = partition.topic_partition
    _log.warning("partition without its topic id is set aside", topic=topic, partition=number)
    error = directory.set_aside(partition.topic_partition)
    if error is not None:
        raise error
    return False
