"""Kills what is left of a test's cluster once standard input ends: `python -m tests.integration.reaper DIRECTORY`."""

import signal
import sys
from pathlib import Path

from barnabas.cli.local.layout import ClusterDirectory
from barnabas.cli.local.processes import read_pid_file, signal_session

if __name__ == "__main__":
    sys.stdin.buffer.read()
    for path in ClusterDirectory(Path(sys.argv[1])).pid_path("any").parent.glob("*.pid"):
        identity = read_pid_file(path)
        if identity is not None:
            signal_session(identity, signal.SIGKILL)
