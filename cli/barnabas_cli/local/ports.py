"""Find out which process holds a TCP port, as far as this user may see."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from barnabas.client.kafka_connection import connect
from barnabas_cli.local.layout import HOST

_LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp."""
_NO_INODE = "0"
"""What has no process any more, such as a connection in TIME_WAIT."""


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
    """Return `pid 123 (java)`, or a phrase if no process can be seen.

    A port that no process listens at is the client's side of a connection: the kernel takes such ports from a range.
    """
    listening, connected = _inodes(port)
    if listening or not connected:
        return _process_with(listening) or "another process"
    return (
        f"a connection of {_process_with(connected) or 'another process'}, as clients use ports from {_client_ports()}"
    )


def _process_with(inodes: set[str]) -> str:
    for name in sorted(os.listdir("/proc")):
        if name.isdigit() and _holds(Path("/proc") / name / "fd", inodes):
            command = (Path("/proc") / name / "comm").read_text().strip()
            return f"pid {name} ({command}{_cluster_of(Path('/proc') / name)})"
    return ""


def _cluster_of(process: Path) -> str:
    """Return which cluster of Barnabas a process belongs to, by the paths in its command line; empty: none."""
    try:
        arguments = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    for argument in arguments:
        path = Path(argument.rpartition("=")[2])
        if path.is_absolute():
            for directory in (path.parent, path.parent.parent):
                if (directory / "cluster.json").is_file():
                    return f", of the cluster in {directory}"
    return ""


def _client_ports() -> str:
    """Return the range of ports that the kernel gives to clients, as `32768 to 60999`."""
    return " to ".join(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())


def _inodes(port: int) -> tuple[set[str], set[str]]:
    """Return the sockets that listen at the port, and those of connections from it."""
    listening: set[str] = set()
    connected: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for row in rows:
            fields = row.split()
            if int(fields[1].rpartition(":")[2], 16) == port and fields[9] != _NO_INODE:
                (listening if fields[3] == _LISTEN else connected).add(f"socket:[{fields[9]}]")
    return listening, connected


def _holds(descriptors: Path, inodes: set[str]) -> bool:
    try:
        return any(os.readlink(descriptor) in inodes for descriptor in descriptors.iterdir())
    except OSError:
        return False  # ended meanwhile, or another user's
