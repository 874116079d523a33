"""Facts about the machine and its software for a bug report."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Final

from barnabas import __version__
from barnabas_cli.etcd_binary import find_etcd

_PACKAGES: Final = ("grpcio", "protobuf", "msgspec", "crc32c", "structlog", "orjson", "click")
_LIMITS: Final = {
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "locked_memory": resource.RLIMIT_MEMLOCK,
    "address_space": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
}
_CGROUP: Final = ("memory.max", "memory.current", "cpu.max", "pids.max")
_READ_BYTES_MAX: Final = 16_384


def versions() -> dict[str, object]:
    etcd = find_etcd()
    return {
        "barnabas": __version__,
        "python": sys.version,
        "packages": {name: _version(name) for name in _PACKAGES},
        "etcd": None if etcd is None else {"version": etcd.version_text, "path": str(etcd.path)},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def facts(data_path: Path) -> dict[str, object]:
    """Return facts about this host and the file system of `data_path`, which need not exist yet."""
    while not data_path.exists():
        data_path = data_path.parent
    disk = shutil.disk_usage(data_path)
    space = os.statvfs(data_path)
    return {
        "kernel": " ".join(platform.uname()),
        "os_release": _read("/etc/os-release"),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "memory": _read("/proc/meminfo"),
        "limits": {name: resource.getrlimit(limit) for name, limit in _LIMITS.items()},
        "cgroup": {name: _read(f"/sys/fs/cgroup/{name}") for name in _CGROUP},
        "disk": {
            "path": str(data_path),
            "total_bytes": disk.total,
            "free_bytes": disk.free,
            "files_free": space.f_favail,
            "mount": _mount_of(data_path),
        },
        "clock": {
            "wall_ms": time.time_ns() // 1_000_000,
            "monotonic_ms": time.monotonic_ns() // 1_000_000,
            "timezone": time.tzname,
            "source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        },
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
        "vm": {name: _read(f"/proc/sys/vm/{name}") for name in ("swappiness", "dirty_ratio", "max_map_count")},
    }


def _mount_of(path: Path) -> str | None:
    """Return the line of /proc/mounts for the nearest parent directory that is a mount point."""
    resolved, best, found = path.resolve(), -1, None
    for line in (_read("/proc/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) > 2 and resolved.is_relative_to(fields[1]) and len(fields[1]) > best:
            best, found = len(fields[1]), line
    return found


def _read(path: str) -> str | None:
    try:
        with open(path, errors="replace") as file:
            return file.read(_READ_BYTES_MAX).strip()
    except OSError:
        return None
