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

from barnabas.cli.local.processes import KILL_SECONDS_MAX, read_pid_file, session_members, signal_session
from tests.faults.namespaces import delete_namespaces


def clean_up(directory: Path, prefix: str) -> None:
    identities = list(filter(None, map(read_pid_file, sorted((directory / "run").glob("*.pid")))))
    for identity in identities:
        signal_session(identity, signal.SIGKILL)
    deadline = time.monotonic() + KILL_SECONDS_MAX
    while any(map(session_members, identities)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for line in Path("/proc/mounts").read_text().splitlines():
        mount_point = line.split()[1]
        if Path(mount_point).is_relative_to(directory):
            subprocess.run(["umount", mount_point], check=False)
    delete_namespaces(prefix)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    clean_up(Path(sys.argv[1]), sys.argv[2])
