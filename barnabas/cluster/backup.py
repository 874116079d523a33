"""A backup of the cluster's state in etcd: every key below the prefix that no lease owns, at one revision, as text.

    {"format": "barnabas-backup", "version": 1, "cluster_id": …, "prefix": …, "revision": …, "taken_ms": …, …}
    {"key": "cluster", "value": "{\"cluster_id\":…}"}
    …
    {"sha256": "…"}

One JSON object per line, in the order of the keys, which are relative to the prefix. A value that is not UTF-8 is given
as `value_base64` instead. The last line is the SHA-256 of all bytes before it, so that a truncated or corrupt file is
detected. Unknown fields are skipped; another `version` means another format. Registrations and the election are under
leases, and are left out: they belong to processes, not to the cluster. Format and use: docs/operate/backup.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

FORMAT: Final = "barnabas-backup"
VERSION: Final = 1
FILE_BYTES_MAX: Final = 1 << 30
"""A million partitions take about 200 MB; etcd itself refuses more than 2 GiB unless it is configured otherwise."""


class UnreadableBackup(ValueError):  # noqa: N818 - it names what was found
    """The file is not a backup, or not a complete one; the message says which."""


@dataclass(slots=True, frozen=True)
class BackupHeader:
    cluster_id: str
    prefix: str
    revision: int
    # Wall clock time.
    taken_ms: int
    # The version of Barnabas that took it.
    written_by: str
    # The number of keys that follow.
    keys: int


@dataclass(slots=True, frozen=True)
class BackupEntry:
    key: str
    value: bytes
    # Of the file, from 1, for what is said about it; 0 if it is of no file.
    line: int = field(default=0, compare=False)


@dataclass(slots=True, frozen=True)
class Backup:
    header: BackupHeader
    entries: tuple[BackupEntry, ...]


def encode_backup(backup: Backup) -> bytes:
    header = {"format": FORMAT, "version": VERSION, **msgspec.to_builtins(backup.header)}
    lines = [_line(header), *[_line(_entry_values(each)) for each in backup.entries]]
    content = b"".join(lines)
    return content + _line({"sha256": hashlib.sha256(content).hexdigest()})


def decode_backup(content: bytes) -> Backup:
    """Raises UnreadableBackup."""
    body_end = content.rstrip(b"\n").rfind(b"\n") + 1
    body, last = content[:body_end], _object(content[body_end:])
    first = _object(body.partition(b"\n")[0])
    if first.get("format") != FORMAT:
        raise UnreadableBackup("it is no back-up of Barnabas, or its first line is missing")
    if first.get("version") != VERSION:
        raise UnreadableBackup(
            f"its format is version {first.get('version')}, and this Barnabas reads version {VERSION}: "
            f"use {first.get('written_by')} or newer"
        )
    if "sha256" not in last:
        raise UnreadableBackup("it was cut off: its last line, the checksum, is missing")
    if last["sha256"] != hashlib.sha256(body).hexdigest():
        raise UnreadableBackup("its checksum is wrong: it has been changed, or has rotted")
    try:
        header = msgspec.convert(first, BackupHeader)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise UnreadableBackup(f"its first line: {error}") from None
    lines = body.split(b"\n")[1:-1]
    entries = tuple([_entry(line, number) for number, line in enumerate(lines, start=2)])
    if len(entries) != header.keys:
        raise UnreadableBackup(f"it has {len(entries)} keys, and its first line counts {header.keys}")
    return Backup(header, entries)


def _entry_values(entry: BackupEntry) -> dict[str, str]:
    try:
        return {"key": entry.key, "value": entry.value.decode()}
    except UnicodeDecodeError:
        return {"key": entry.key, "value_base64": base64.b64encode(entry.value).decode()}


def _entry(line: bytes, number: int) -> BackupEntry:
    values = _object(line)
    try:
        key = str(values["key"])
        key.encode()
        if "value" in values:
            return BackupEntry(key, values["value"].encode(), number)
        return BackupEntry(key, base64.b64decode(values["value_base64"], validate=True), number)
    except (KeyError, AttributeError, TypeError, ValueError):
        # ValueError: of base64, and of half a surrogate pair, which JSON can spell and UTF-8 can't.
        shown = line[:60].decode("utf-8", "replace")
        raise UnreadableBackup(f"line {number} is no key with its value: {shown}") from None


def _object(line: bytes) -> dict[str, Any]:
    """Return an empty one if the line is not an object."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
