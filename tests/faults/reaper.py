"""Cleans up after a run once standard input ends: `python -m tests.faults.reaper DIRECTORY PREFIX`.

Processes first, then mounts, namespaces and files. It is the one way by which a run is cleaned up, whether that ended
by itself, by an exception, by Ctrl-C or by kill -9.
"""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from barnabas_cli.local.processes import ProcessIdentity, read_pid_file, session_members, signal_session
from tests.faults.namespaces import delete_namespaces

CLEAN_SECONDS_MAX = 40.0
_POLL_SECONDS = 0.05


def clean_up(directory: Path, prefix: str, seconds_max: float = CLEAN_SECONDS_MAX) -> bool:
    """Return whether nothing is left.

    Each step is repeated until it has its effect: a process that was just being forked is killed by the next signal,
    and the threads of a killed process may hold its files for some time after its first thread is gone.
    """
    identities = list(filter(None, map(read_pid_file, sorted((directory / "run").glob("*.pid")))))
    deadline = time.monotonic() + seconds_max
    while (is_left := _is_left(directory, prefix, identities)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return not is_left


def _is_left(directory: Path, prefix: str, identities: list[ProcessIdentity]) -> bool:
    """Do as much as can be done now."""
    for identity in identities:
        signal_session(identity, signal.SIGKILL)
    if any(map(session_members, identities)):
        return True
    for line in Path("/proc/mounts").read_text().splitlines():
        mount_point = line.split()[1]
        if Path(mount_point).is_relative_to(directory):
            subprocess.run(["umount", mount_point], capture_output=True, check=False)
    delete_namespaces(prefix)
    shutil.rmtree(directory, ignore_errors=True)
    return directory.exists()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    if not clean_up(Path(sys.argv[1]), sys.argv[2]):
        sys.exit(f"{sys.argv[1]} can't be removed: see `lsof +D` and /proc/mounts for what holds it")
