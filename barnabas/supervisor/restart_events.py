"""Deaths and restarts of services, in a bounded file with a line of JSON for each."""

from __future__ import annotations

import json
import os
from collections import deque
from typing import Any, NamedTuple

FILE_BYTES_MAX = 256 * 1024
"""The file is halved, from its older end, before it grows beyond."""
UNWRITTEN_MAX = 100
"""How many are kept in memory while the disk takes none; the oldest are dropped."""
TEXT_MAX = 500

DIED, RESTARTED, FAILED = "died", "restarted", "failed"
"""What happened: a service ended, was started again, or could not be."""


class RestartEvent(NamedTuple):
    time_ms: int
    service: str
    what: str
    why: str
    """How it ended, or why it could not be started."""
    last_line: str = ""
    """The end of its log, if that may say why."""
    pid: int = 0
    """Of the process that died, or of the new one."""
    delay_ms: int = 0
    """After which it is started again."""


class RestartEvents:
    """The file as its writer has it. Writing never fails: what a full disk does not take is written later."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._unwritten: deque[RestartEvent] = deque(maxlen=UNWRITTEN_MAX)

    @property
    def has_unwritten(self) -> bool:
        return bool(self._unwritten)

    def add(self, event: RestartEvent) -> None:
        self._unwritten.append(event._replace(why=event.why[:TEXT_MAX], last_line=event.last_line[:TEXT_MAX]))
        self.write()

    def write(self) -> None:
        try:
            self._halve_if_full()
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                while self._unwritten:
                    size = os.fstat(descriptor).st_size
                    line = _encode(self._unwritten[0])
                    if os.write(descriptor, line) < len(line):
                        os.ftruncate(descriptor, size)
                        return
                    self._unwritten.popleft()
            finally:
                os.close(descriptor)
        except OSError:
            return

    def _halve_if_full(self) -> None:
        try:
            if os.path.getsize(self._path) < FILE_BYTES_MAX:
                return
        except FileNotFoundError:
            return
        with open(self._path, "rb") as file:
            file.seek(FILE_BYTES_MAX // 2)
            kept = file.read().partition(b"\n")[2]
        try:
            with open(f"{self._path}.tmp", "wb") as file:
                file.write(kept)
            os.replace(f"{self._path}.tmp", self._path)
        except OSError:
            # A full disk must not let the file grow when it has space again.
            os.truncate(self._path, 0)


def _encode(event: RestartEvent) -> bytes:
    return json.dumps(event._asdict(), ensure_ascii=False).encode(errors="replace") + b"\n"


def read_restart_events(path: str | os.PathLike[str]) -> list[RestartEvent]:
    """Return what the file has, oldest first; lines that can't be read are left out."""
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    return [event for line in lines if (event := _decode(line)) is not None]


def _decode(line: bytes) -> RestartEvent | None:
    try:
        found: dict[str, Any] = json.loads(line)
        return RestartEvent(**{name: found[name] for name in RestartEvent._fields})
    except (ValueError, KeyError, TypeError):
        return None
