"""In which format a log directory is, and which versions of Barnabas can use it: the file `barnabas-format` in it.

    format=1
    readers.min=0
    written.by=0.2.0

The formats of Kafka have versions of their own (`meta.properties`, record batches, checkpoints), and stay Kafka's. This
one counts what Barnabas itself decides: which files there are, and what they mean. Version 0.1.0 wrote no such file,
which is format 0. An older directory is brought to the present format by the start that finds it; of a newer one
`readers.min` says whether it may be used all the same.
"""

from __future__ import annotations

from barnabas import __version__
from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage.checkpoints import parse_lines, whole_number
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal

FORMAT_FILE = "barnabas-format"
FORMAT = 1
READERS_MIN = 0
"""Format 1 is format 0 with this file and `topic-register`, which version 0.1.0 does not look at."""


def check_format(disk: Disk, path: str) -> DirectoryRefusal | None:
    """Why this version must leave the directory alone; None: it may use it. Raises DiskError."""
    found = _read(disk, path)
    if found is None:
        return None
    readers_min = whole_number(found.get("readers.min", ""))
    if whole_number(found.get("format", "")) is None or readers_min is None:
        return DirectoryRefusal(
            f"{path}/{FORMAT_FILE} can't be read: restore it, or, where no newer version has used the directory, "
            "remove it"
        )
    if readers_min > FORMAT:
        written_by = found.get("written.by", "a newer version")
        return DirectoryRefusal(
            f"{path} was written by Barnabas {written_by} (format {readers_min}), and this is {__version__} "
            f"(format {FORMAT}): run {written_by} or newer"
        )
    return None


def raise_format(disk: Disk, path: str) -> None:
    """Bring a directory that may be used to the present format; what is newer stays as it is. Raises DiskError."""
    found = _read(disk, path)
    if found is None or int(found["format"]) < FORMAT:
        content = f"format={FORMAT}\nreaders.min={READERS_MIN}\nwritten.by={__version__}\n"
        disk.replace_file(f"{path}/{FORMAT_FILE}", content.encode())


def _read(disk: Disk, path: str) -> dict[str, str] | None:
    file_path = f"{path}/{FORMAT_FILE}"
    return parse_lines(disk.read_file(file_path), "=") if disk.exists(file_path) else None
