"""Kills what is left of a test's cluster once standard input ends: `python -m tests.integration.reaper DIRECTORY`."""

import signal
import sys
from pathlib import Path

from barnabas.supervisor.places import PID_FILE
from barnabas_cli.local.layout import ClusterDirectory
from barnabas_cli.local.processes import read_pid_file, signal_session

if __name__ == "__main__":
    sys.stdin.buffer.read()
    run_path = ClusterDirectory(Path(sys.argv[1])).pid_path("any").parent
    # The supervisor first, so that it restarts nothing.
    for path in sorted(run_path.glob("*.pid"), key=lambda path: path.name != PID_FILE):
        identity = read_pid_file(path)
        if identity is not None:
            signal_session(identity, signal.SIGKILL)
