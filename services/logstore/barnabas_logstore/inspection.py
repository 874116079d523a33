"""`barnabas inspect`: what the log directories of one stopped logstore hold, without changing anything in them.

Runs where the directories are, mounted read-only if need be; only while no logstore uses them, which their locks tell.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from barnabas.cluster.inspection import InspectionRefused, NodeInspection
from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.checkpoints import uuid_to_text
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal
from barnabas_logstore.core.storage.directories.directory_inspection import InspectedDirectory, inspect_directory
from barnabas_logstore.shell.known_directories import read_known_directories
from barnabas_logstore.shell.log_dirs import LOCK_FILE
from barnabas_logstore.shell.posix_disk import PosixDisk


class _ReadOnlyDisk(PosixDisk):
    def _open(self, path: str, flags: int) -> int:
        return super()._open(path, flags & ~(os.O_RDWR | os.O_CREAT) | os.O_RDONLY)


def inspect_log_dirs(paths: Sequence[str]) -> NodeInspection:
    """All log directories of one logstore. Raises InspectionRefused."""
    disk = _ReadOnlyDisk()
    found: list[InspectedDirectory] = []
    for path in paths:
        with _unused(path):
            try:
                inspected = inspect_directory(disk, path)
            except DiskError as error:
                raise InspectionRefused(f"{path} can't be read: {error}") from error
        if isinstance(inspected, DirectoryRefusal):
            raise InspectionRefused(inspected.message)
        found.append(inspected)
    owners = {(each.identity.cluster_id, each.identity.node_id) for each in found}
    if len(owners) > 1:
        told = "; ".join(f"{each.found.path} of node {each.identity.node_id}" for each in found)
        raise InspectionRefused(f"inspect the directories of one logstore at a time: {told}")
    cluster_id, node_id = owners.pop()
    return NodeInspection(
        cluster_id,
        node_id,
        [each.found for each in found],
        _missing(disk, found),
        max(each.producer_id_max for each in found),
    )


def _missing(disk: PosixDisk, found: Sequence[InspectedDirectory]) -> list[str]:
    """Paths of directories that this logstore has had, and that are not among these."""
    present = {uuid_to_text(each.identity.directory_id) for each in found}
    known: dict[str, str] = {}
    for each in found:
        known |= read_known_directories(disk, each.found.path)
    return sorted(path for directory_id, path in known.items() if directory_id not in present)


@contextmanager
def _unused(path: str) -> Iterator[None]:
    """Keeps a logstore from starting on the directory meanwhile. A directory that never had one needs no lock."""
    try:
        descriptor = os.open(f"{path}/{LOCK_FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise InspectionRefused(f"{path} can't be read: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InspectionRefused(f"{path} is in use: stop its logstore first") from None
    finally:
        os.close(descriptor)
