"""Find out which process holds a TCP port, as far as this user may see."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from barnabas.cli.local.layout import HOST
from barnabas.client.kafka_connection import connect

_LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp."""


def is_free(port: int) -> bool:
    """Return whether a service can listen on the port now; connections in TIME_WAIT are ignored."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            # Binding succeeds beside a listener on the wildcard address of some systems; listening does not.
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def accepts(port: int, timeout_seconds: float = 1.0) -> bool:
    """Return whether a process accepts connections on the port."""
    try:
        connect(HOST, port, timeout_seconds).close()
    except OSError:
        return False
    return True


def holder(port: int) -> str:
    """Return `pid 123 (java)`, or a phrase if no process can be seen."""
    inodes = _listening_inodes(port)
    for name in sorted(os.listdir("/proc")):
        if name.isdigit() and _holds(Path("/proc") / name / "fd", inodes):
            command = (Path("/proc") / name / "comm").read_text().strip()
            return f"pid {name} ({command})"
    return "another process"


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return inodes


def _holds(descriptors: Path, inodes: set[str]) -> bool:
    try:
        return any(os.readlink(descriptor) in inodes for descriptor in descriptors.iterdir())
    except OSError:
        return False  # ended meanwhile, or another user's
