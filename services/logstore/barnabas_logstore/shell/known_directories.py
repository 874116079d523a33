"""What log directories this logstore has had: one that is in `log.dirs` no more is missed, not forgotten.

An operator who leaves a directory out, or whose configuration lost it, still has its partitions there. To make them
anew, empty, in another one would be lost records and a healthy status; so the directory counts as offline, by the name
it had. Every directory keeps the list of all of them; to give one up, with what it holds, is to remove its line from
each list.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage.checkpoints import uuid_to_text
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory

KNOWN_LOG_DIRS = "known-log-dirs"


def note_directories(disk: Disk, directories: Sequence[LogDirectory]) -> list[str]:
    """Add these to the lists; the paths of those that were there before and are not any more. Raises DiskError.

    A directory that was moved is known by its id, and one that was replaced by its path.
    """
    sound = {uuid_to_text(each.identity.directory_id): each for each in directories if each.error is None}
    configured = {each.path for each in directories}
    offline = configured - {each.path for each in sound.values()}
    known: dict[str, str] = {}
    for each in sound.values():
        known |= read_known_directories(disk, each.path)
    missing = {key: path for key, path in known.items() if key not in sound and path not in configured}
    out_of_reach = {key: path for key, path in known.items() if path in offline}
    present = {key: each.path for key, each in sound.items()}
    lines = sorted((missing | out_of_reach | present).items())
    content = "".join(f"{directory_id} {path}\n" for directory_id, path in lines).encode()
    for each in sound.values():
        path = f"{each.path}/{KNOWN_LOG_DIRS}"
        if not disk.exists(path) or disk.read_file(path) != content:
            disk.replace_file(path, content)
    return sorted(missing.values())


def missed(path: str) -> DiskError:
    """Why partitions of a directory that is not in `log.dirs` can't be served."""
    return DiskError(DiskErrorKind.NOT_FOUND, "log.dirs lacks", path)


def read_known_directories(disk: Disk, directory: str) -> dict[str, str]:
    """Paths by directory id, as one log directory lists them. A line that says nothing is as good as none."""
    path = f"{directory}/{KNOWN_LOG_DIRS}"
    if not disk.exists(path):
        return {}
    lines = [line.split(" ", 1) for line in disk.read_file(path).decode("utf-8", "replace").splitlines()]
    return {line[0]: line[1] for line in lines if len(line) == 2}
