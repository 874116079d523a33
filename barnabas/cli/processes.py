"""Background processes that outlive the command which started them.

Each is the leader of a session of its own and is known by a pid file that holds, beside the pid, the kernel's boot id
and the process's start time: a pid alone may have been given to somebody else since.
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
"""A larger log is set aside as `<name>.log.1` before its process starts anew; one such is kept."""

KILL_SECONDS_MAX = 10.0
"""Only a process stuck in the kernel outlives SIGKILL for so long."""

OPEN_FILES = 65_536
"""As many as a service may have open, where the hard limit allows it."""

_POLL_SECONDS = 0.02


@dataclass(slots=True, frozen=True)
class ProcessIdentity:
    pid: int
    start_ticks: int
    """Clock ticks between the boot and the start of the process: field 22 of /proc/<pid>/stat."""
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
    """Who runs under this pid now; None when nobody does."""
    stat = _stat(pid)
    return None if stat is None else ProcessIdentity(pid, stat.start_ticks, boot_id())


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether that very process runs; one that ended and was not waited for does not."""
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
    """Pids in the session that this process leads or led, itself included: what a killed leader left behind too."""
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
    """Start a process in a session of its own, its output appended to the log. Raises OSError."""
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
    """Let what is spawned from now on open more files than a login shell's usual 1,024: connections and segments."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def signal_process(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Signal that very process; nothing when it has ended."""
    if is_alive(identity):
        os.kill(identity.pid, number)


def signal_session(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Signal everything that the process left in its session."""
    for pid in session_members(identity):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def stop(identities: Iterable[ProcessIdentity], grace_seconds: float) -> list[ProcessIdentity]:
    """SIGTERM, then SIGKILL to each whole session after the grace; returns those that had to be killed."""
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
    """None when there is none, or when it can't be read as one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProcessIdentity)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def last_lines(log_path: Path, count: int) -> list[str]:
    """The end of a log, at most 64 KiB of it."""
    try:
        with log_path.open("rb") as log:
            log.seek(max(0, log_path.stat().st_size - 65536))
            return log.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
