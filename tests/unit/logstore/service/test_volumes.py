"""File systems flushed as a whole: only where the kernel tells of every error, and an error is one for good."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.shell import volumes
from barnabas_logstore.shell.posix_disk import PosixDisk
from barnabas_logstore.shell.volumes import Volumes


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Volumes, str]:
    """On a file system that is sound, whatever the tests run on."""
    monkeypatch.setattr(volumes, "_file_system", lambda descriptor: 0xEF53)
    watched = Volumes()
    watched.watch(str(tmp_path))
    return watched, str(tmp_path)


def test_a_directory_below_is_on_the_volume(watched: tuple[Volumes, str]) -> None:
    disk, path = watched
    os.mkdir(f"{path}/orders-0")
    assert disk.is_one(path, [f"{path}/orders-0"])
    disk.flush(path)


def test_a_link_to_another_file_system_is_not(watched: tuple[Volumes, str]) -> None:
    disk, path = watched
    os.symlink("/proc/self", f"{path}/orders-0")
    assert not disk.is_one(path, [f"{path}/orders-0"])


def test_what_is_not_watched_may_have_failed_before(watched: tuple[Volumes, str]) -> None:
    disk, path = watched
    os.mkdir(f"{path}/other")
    assert not disk.is_one(f"{path}/other", [])


@pytest.mark.parametrize(
    ("release", "is_reported"), [("5.16.20-1", False), ("5.17", True), ("6.1.0-13-amd64", True), ("x", False)]
)
def test_the_kernel_has_to_tell_of_errors(
    watched: tuple[Volumes, str], monkeypatch: pytest.MonkeyPatch, release: str, is_reported: bool
) -> None:
    disk, path = watched
    name = os.uname()
    changed = os.uname_result((name.sysname, name.nodename, release, name.version, name.machine))
    monkeypatch.setattr(os, "uname", lambda: changed)
    assert disk.is_one(path, []) is is_reported


def test_so_has_the_file_system() -> None:
    disk = Volumes()
    disk.watch("/proc")
    assert not disk.is_one("/proc", [])


def test_an_error_is_reported_once_by_the_kernel_and_for_good_by_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = PosixDisk()
    disk.watch_volume(str(tmp_path))
    outcomes = iter((-1, 0))

    class Kernel:
        def syncfs(self, descriptor: int) -> int:
            ctypes.set_errno(errno.ENOSPC)
            return next(outcomes)

    monkeypatch.setattr(volumes, "_libc", Kernel())
    for _ in range(2):
        with pytest.raises(DiskError) as raised:
            disk.flush_volume(str(tmp_path))
        assert raised.value.kind is DiskErrorKind.NO_SPACE
        assert not raised.value.is_lack_of_room, "what was not written back is lost"
