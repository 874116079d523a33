"""Which versions of Barnabas can use the state in etcd.

The key `version` says which format the keys below the prefix have, and which formats a process must support to use
them. Version 0.1.0 wrote no such key, which is format 0, and does not check for one. A controller that becomes active
raises the format to its own; every process checks it before it registers, and a controller before it claims the
election, so that an old one never misinterprets what a newer one has written.

A format number is raised when keys or records change their meaning. New keys, and new optional fields, don't require
that: every version skips unknown ones (`barnabas.cluster.keys`). `READERS_MIN` is raised only if an older process would
do harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FORMAT: Final = 1
READERS_MIN: Final = 0
"""Format 1 is format 0 with this record: version 0.1.0 may run beside this one, and may be used again after it."""


@dataclass(slots=True, frozen=True)
class VersionRecord:
    format: int
    # Processes that don't support this format must not use the cluster.
    readers_min: int
    # The version of Barnabas that raised the format, for people.
    written_by: str
    # `barnabas restore` or `barnabas rebuild` is writing the keys: they may be incomplete.
    restoring: bool = False


def refusal(found: VersionRecord | None, version: str) -> str | None:
    """Return why a process of this `version` must not use the cluster, as one line for the operator; None: it may."""
    if found is None:
        return None
    if found.readers_min > FORMAT:
        return (
            f"the cluster's state in etcd is of Barnabas {found.written_by} (format {found.readers_min}), and this is "
            f"{version} (format {FORMAT}): run {found.written_by} or newer"
        )
    if found.restoring:
        return (
            "a restore of the cluster's state in etcd is in progress, or was interrupted: wait for it, or repeat it "
            "with --replace"
        )
    return None
