"""Check whether a cluster can run on this machine."""

from __future__ import annotations

import platform
import resource
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from barnabas_cli.etcd_binary import cache_path, find_etcd
from barnabas_cli.local import ports, processes
from barnabas_cli.local.layout import ClusterDirectory, ClusterLayout

DISK_BYTES_MIN = 1 << 30
OPEN_FILES_MIN = 4096


@dataclass(slots=True)
class Finding:
    what: str
    is_well: bool | None
    """None: informational; does not prevent a cluster from running."""
    advice: str = ""


def examine(directory: ClusterDirectory, layout: ClusterLayout) -> list[Finding]:
    return [
        _python(),
        _etcd(),
        _open_files(),
        _disk(directory),
        *_pid_files(directory),
        *_ports(directory, layout),
        *_tools(),
    ]


def _python() -> Finding:
    version = platform.python_version()
    return Finding(f"Python {version}", sys.version_info >= (3, 11), "" if sys.version_info >= (3, 11) else "get 3.11+")


def _etcd() -> Finding:
    etcd = find_etcd()
    if etcd is None:
        return Finding(
            "no etcd 3.4.22+, 3.5.6+ or 3.6+ on PATH",
            None,
            "`barnabas up` gets Debian's package, or builds one with Go; or apt-get install etcd-server",
        )
    return Finding(f"etcd {etcd.version_text} ({etcd.path})", True)


def _open_files() -> Finding:
    """Check the hard limit: `up` raises the soft limit, and only root raises the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_enough = hard == resource.RLIM_INFINITY or hard >= OPEN_FILES_MIN
    advice = "" if is_enough else f"every connection and segment needs one: raise the hard limit to {OPEN_FILES_MIN}"
    return Finding(f"up to {hard} open files a process", is_enough, advice)


def _disk(directory: ClusterDirectory) -> Finding:
    path = directory.path
    while not path.exists():
        path = path.parent
    free = shutil.disk_usage(path).free
    advice = "" if free >= DISK_BYTES_MIN else "free some disk space, or use --data-dir on another disk"
    return Finding(f"{free / (1 << 30):.1f} GiB free for {directory.path}", free >= DISK_BYTES_MIN, advice)


def _pid_files(directory: ClusterDirectory) -> Iterator[Finding]:
    for path in sorted(directory.pid_path("*").parent.glob("*.pid")):
        identity = processes.read_pid_file(path)
        if identity is None:
            yield Finding(f"{path} can't be read", False, "remove it")
        elif not processes.is_alive(identity):
            yield Finding(
                f"{path.stem} (pid {identity.pid}) is dead, its pid file is stale",
                None,
                "`barnabas up` restarts it",
            )


def _ports(directory: ClusterDirectory, layout: ClusterLayout) -> Iterator[Finding]:
    own = [processes.read_pid_file(path) for path in directory.pid_path("*").parent.glob("*.pid")]
    if any(identity is not None and processes.is_alive(identity) for identity in own):
        return  # they are ours
    used = [port for port in layout.ports_used if not ports.is_free(port)]
    for port in used:
        yield Finding(
            f"port {port} is in use by {ports.holder(port)}", False, "stop it, or use another --port and --data-dir"
        )
    if not used:
        yield Finding(f"port {layout.kafka_port} and the others are free", True)


def _tools() -> Iterator[Finding]:
    if shutil.which("kcat") is None:
        yield Finding("no kcat", None, "optional Kafka client for the shell: apt-get install kcat")
    if shutil.which("java") is None:
        yield Finding("no java", None, "only `make bench` and the tests with Java clients need it")
    elif not (cache_path() / "peer/libs").exists():
        yield Finding("no jars of Apache Kafka", None, "only needed to compare with it: make peer")
