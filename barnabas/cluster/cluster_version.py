"""Which versions of Barnabas can work with what etcd holds.

The key `version` says in which format the keys below the prefix are, and which formats a process has to know to work
with them. Version 0.1.0 wrote no such key, which is format 0, and does not look for one. A controller that becomes
active raises the format to its own; every process looks before it registers, and a controller before it claims the
election, so that an old one never misunderstands what a newer one has written.

A format number goes up when keys or records get another meaning. New keys, and new fields that may be left out, need
none: unknown ones are skipped by every version (`barnabas.cluster.keys`). `READERS_MIN` goes up only where an older
process would do harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FORMAT: Final = 1
READERS_MIN: Final = 0
"""Format 1 is format 0 with this record: version 0.1.0 may work beside this one, and may come back after it."""


@dataclass(slots=True, frozen=True)
class VersionRecord:
    format: int
    # Whoever does not know this format must leave the cluster alone.
    readers_min: int
    # The version of Barnabas that raised the format, for people.
    written_by: str
    # The keys are being written by `barnabas restore` or `barnabas rebuild`: half of them may be there.
    restoring: bool = False


def refusal(found: VersionRecord | None, version: str) -> str | None:
    """Why a process of this `version` must not work with the cluster, as one line for the operator; None: it may."""
    if found is None:
        return None
    if found.readers_min > FORMAT:
        return (
            f"the cluster's state in etcd is of Barnabas {found.written_by} (format {found.readers_min}), and this is "
            f"{version} (format {FORMAT}): run {found.written_by} or newer"
        )
    if found.restoring:
        return (
            "a restore of the cluster's state in etcd is under way, or broke off: wait for it, or do it again with "
            "--replace"
        )
    return None
