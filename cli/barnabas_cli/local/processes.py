"""Background processes that outlive the command which started them; each is a session leader."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from barnabas.supervisor.process_table import (
    ProcessIdentity,
    boot_id,
    identify,
    is_running,
    last_lines,
    read_pid_file,
    session_members,
    signal_session,
    spawn,
    write_pid_file,
)

__all__ = [
    "ProcessIdentity",
    "boot_id",
    "identify",
    "is_alive",
    "last_lines",
    "raise_open_files_limit",
    "read_pid_file",
    "runs_with",
    "session_members",
    "signal_process",
    "signal_session",
    "spawn",
    "stop",
    "write_pid_file",
]

KILL_SECONDS_MAX = 10.0
"""Only a process stuck in the kernel outlives SIGKILL for this long."""

OPEN_FILES = 65_536
"""The number of files a service may open, if the hard limit allows it."""

_POLL_SECONDS = 0.02


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether that very process runs; one that has ended but was not waited for does not."""
    _reap(identity.pid)
    return is_running(identity)


def runs_with(identity: ProcessIdentity, arguments: Sequence[str]) -> bool:
    """Return whether a process that is alive was started with these arguments."""
    try:
        given = Path(f"/proc/{identity.pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
    except OSError:
        return False
    return given[-len(arguments) :] == list(arguments)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # started by an earlier command


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
