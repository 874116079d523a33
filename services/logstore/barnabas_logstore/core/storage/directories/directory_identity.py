"""Whose a log directory is, and that it lasts: what comes before anything is looked for in it."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage import checkpoints
from barnabas_logstore.core.storage.checkpoints import DirectoryIdentity


@dataclass(slots=True, frozen=True)
class DirectoryRefusal:
    """Why a directory is not used, as one line for the operator."""

    message: str


def make_durably(disk: Disk, path: str) -> None:
    """Make what is missing of `path`, and flush the names of what is there: a process that was killed right after it
    made them has not, and a power cut would take everything.
    """
    missing = []
    ancestor = path
    while ancestor and not disk.exists(ancestor):
        missing.append(ancestor)
        ancestor = ancestor.rpartition("/")[0]
    for made in reversed(missing):
        disk.make_directory(made)
        disk.flush_directory(made.rpartition("/")[0] or "/")
    while ancestor:
        ancestor = ancestor.rpartition("/")[0]
        try:
            disk.flush_directory(ancestor or "/")
        except DiskError:
            return  # Not ours to flush: whoever made what we may not touch has seen to it.


def identify(disk: Disk, path: str, wanted: DirectoryIdentity) -> DirectoryIdentity | DirectoryRefusal:
    meta_path = f"{path}/{checkpoints.META_PROPERTIES}"
    try:
        content = disk.read_file(meta_path)
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        disk.replace_file(meta_path, checkpoints.format_meta_properties(wanted))
        return wanted
    found = checkpoints.parse_meta_properties(content)
    if found is None:
        return DirectoryRefusal(
            f"{meta_path} is not a meta.properties of version 1 with cluster.id, node.id, directory.id"
        )
    if found.cluster_id != wanted.cluster_id:
        return DirectoryRefusal(f"{path} belongs to cluster {found.cluster_id}, not to {wanted.cluster_id}")
    if found.node_id != wanted.node_id:
        return DirectoryRefusal(f"{path} belongs to node {found.node_id}, not to node {wanted.node_id}")
    return found
