"""Background processes that outlive the command which started them.

Each is a session leader and is identified by a pid file that holds, beside the pid, the kernel's boot id and the
process's start time: a pid alone may have been reused since.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

LOG_BYTES_MAX = 32 * 1024 * 1024
"""A log larger than this is renamed to `<name>.log.1` before its process starts again; one such file is kept."""

KILL_SECONDS_MAX = 10.0
"""Only a process stuck in the kernel outlives SIGKILL for this long."""

OPEN_FILES = 65_536
"""The number of files a service may open, if the hard limit allows it."""

_POLL_SECONDS = 0.02


@dataclass(slots=True, frozen=True)
class ProcessIdentity:
    pid: int
    start_ticks: int
    """Clock ticks between boot and the start of the process: field 22 of /proc/<pid>/stat."""
    boot_id: str


@dataclass(slots=True, frozen=True)
class _Stat:
    state: str
    session: int
    start_ticks: int


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name is in parentheses and may hold anything, so fields are counted from its end.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(state=fields[0], session=int(fields[3]), start_ticks=int(fields[19]))


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process with this pid; None if there is none."""
    stat = _stat(pid)
    return None if stat is None else ProcessIdentity(pid, stat.start_ticks, boot_id())


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether that very process runs; one that has ended but was not waited for does not."""
    _reap(identity.pid)
    stat = _stat(identity.pid)
    return (
        stat is not None
        and stat.state != "Z"
        and stat.start_ticks == identity.start_ticks
        and identity.boot_id == boot_id()
    )


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # started by an earlier command


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


def spawn(argv: list[str], log_path: Path, environment: Mapping[str, str]) -> ProcessIdentity:
    """Start a process in its own session, with its output appended to the log. Raises OSError."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    if log_path.exists() and log_path.stat().st_size > LOG_BYTES_MAX:
        log_path.rename(log_path.with_suffix(".log.1"))
    pid = os.posix_spawn(
        argv[0],
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log_path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    identity = identify(pid)
    assert identity is not None, "a child is there until it is waited for"
    return identity


def raise_open_files_limit() -> None:
    """Raise the soft limit of open files for processes started from now on: a login shell's usual 1,024 is too low for
    connections and segments.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def signal_process(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Signal that very process, unless it has ended."""
    if is_alive(identity):
        os.kill(identity.pid, number)


def signal_session(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Signal every process in the session."""
    for pid in session_members(identity):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def stop(identities: Iterable[ProcessIdentity], grace_seconds: float) -> list[ProcessIdentity]:
    """Send SIGTERM, then SIGKILL to each whole session after the grace period. Returns those that had to be killed."""
    stopping = [identity for identity in identities if session_members(identity)]
    for identity in stopping:
        signal_process(identity, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    left = stopping
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        left = [identity for identity in left if is_alive(identity)]
    killed = left
    for identity in stopping:
        signal_session(identity, signal.SIGKILL)
    deadline = time.monotonic() + KILL_SECONDS_MAX
    while any(session_members(identity) for identity in stopping) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return killed


def write_pid_file(path: Path, identity: ProcessIdentity) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(asdict(identity)) + b"\n")
    temporary.replace(path)


def read_pid_file(path: Path) -> ProcessIdentity | None:
    """Return None if there is no pid file, or none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProcessIdentity)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def last_lines(log_path: Path, count: int) -> list[str]:
    """Return the last lines of a log, at most 64 KiB of it."""
    try:
        with log_path.open("rb") as log:
            log.seek(max(0, log_path.stat().st_size - 65536))
            return log.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
