"""Processes as the kernel lists them, each identified beyond its pid.

A pid file holds, beside the pid, the kernel's boot id and the process's start time: a pid alone may have been reused
since.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from typing import NamedTuple

LOG_BYTES_MAX = 32 * 1024 * 1024
"""A log larger than this is renamed to `<name>.log.1` before its process starts again; one such file is kept."""

_TAIL_BYTES = 65_536


class ProcessIdentity(NamedTuple):
    pid: int
    start_ticks: int
    """Clock ticks between boot and the start of the process: field 22 of /proc/<pid>/stat."""
    boot_id: str


class _Stat(NamedTuple):
    state: str
    session: int
    start_ticks: int


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _stat(pid: int) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name is in parentheses and may hold anything, so fields are counted from its end.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(state=fields[0], session=int(fields[3]), start_ticks=int(fields[19]))


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process with this pid; None if there is none."""
    stat = _stat(pid)
    return None if stat is None else ProcessIdentity(pid, stat.start_ticks, boot_id())


def is_running(identity: ProcessIdentity) -> bool:
    """Return whether that very process runs; one that has ended but was not waited for does not."""
    stat = _stat(identity.pid)
    return (
        stat is not None
        and stat.state != "Z"
        and stat.start_ticks == identity.start_ticks
        and identity.boot_id == boot_id()
    )


def session_members(identity: ProcessIdentity) -> list[int]:
    """Return the pids in the session that this process leads or led, itself included, and so also what a killed leader
    left behind.
    """
    if identity.boot_id != boot_id():
        return []
    members = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _stat(int(name))
            if (
                stat is not None
                and stat.session == identity.pid
                and stat.state != "Z"
                and stat.start_ticks >= identity.start_ticks
            ):
                members.append(int(name))
    return members


def signal_session(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Signal every process in the session."""
    for pid in session_members(identity):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def spawn(argv: list[str], log_path: str | os.PathLike[str], environment: Mapping[str, str]) -> ProcessIdentity:
    """Start a process in its own session, with its output appended to the log. Raises OSError."""
    log = os.fspath(log_path)
    os.makedirs(os.path.dirname(log), exist_ok=True)
    if os.path.exists(log) and os.path.getsize(log) > LOG_BYTES_MAX:
        os.rename(log, f"{log}.1")
    pid = os.posix_spawn(
        argv[0],
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    identity = identify(pid)
    assert identity is not None, "a child is there until it is waited for"
    return identity


def write_pid_file(path: str | os.PathLike[str], identity: ProcessIdentity) -> None:
    """Replace the file in one step; on a full disk, overwrite the one that is there. Raises OSError."""
    name = os.fspath(path)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    content = json.dumps(identity._asdict()).encode() + b"\n"
    temporary = f"{os.path.splitext(name)[0]}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, name)
    except OSError:
        # The block of the file that is there needs no new one.
        with open(name, "r+b", buffering=0) as file:
            file.write(content.ljust(os.path.getsize(name)))


def read_pid_file(path: str | os.PathLike[str]) -> ProcessIdentity | None:
    """Return None if there is no pid file, or none that can be read."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
        return ProcessIdentity(int(found["pid"]), int(found["start_ticks"]), str(found["boot_id"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def last_lines(log_path: str | os.PathLike[str], count: int) -> list[str]:
    """Return the last lines of a log, at most 64 KiB of it."""
    try:
        with open(log_path, "rb") as log:
            log.seek(max(0, os.path.getsize(log_path) - _TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
