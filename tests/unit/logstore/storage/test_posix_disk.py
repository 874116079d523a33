"""The real disk keeps the contract of the port, short writes and long lists of buffers included."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.ports.disk import DirectoryEntry, Disk, DiskError, DiskErrorKind
from barnabas_logstore.shell.open_files import PosixFile
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.sim.disk_model import DiskModel

MIB = 1 << 20


@pytest.fixture(params=["real", "model"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return PosixDisk() if request.param == "real" else DiskModel()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    path = f"{tmp_path}/a/b"
    names = path.split("/")
    for depth in range(2, len(names) + 1):
        disk.make_directory("/".join(names[:depth]))
    return path


def test_nothing_is_made_where_the_parent_is_gone(disk: Disk, root: str) -> None:
    """A log directory whose disk is not mounted any more must not be recreated on the disk beneath it."""
    with pytest.raises(DiskError) as raised:
        disk.make_directory(f"{root}/unmounted/orders-0")
    assert raised.value.kind is DiskErrorKind.NOT_FOUND
    assert not disk.exists(f"{root}/unmounted")


def test_bytes_come_back_from_where_they_were_written(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/x", create=True)
    disk.write_at(file, 3, [b"ab", bytearray(b"cd"), memoryview(b"-ef-")[1:3], b""])
    assert disk.read_at(file, 0, 100) == b"\0\0\0abcdef"
    assert disk.read_at(file, 5, 2) == b"cd"
    assert disk.read_at(file, 50, 2) == b""
    assert disk.size(file) == 9
    disk.truncate(file, 4)
    disk.flush(file)
    assert bytes(disk.map(file)) == b"\0\0\0a"


def test_more_buffers_than_one_call_takes(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/x", create=True)
    buffers = [bytes([number % 256]) * (number % 5) for number in range(2500)]
    disk.write_at(file, 0, buffers)
    assert disk.read_at(file, 0, 1 << 20) == b"".join(buffers)


def test_names(disk: Disk, root: str) -> None:
    disk.replace_file(f"{root}/one", b"first")
    disk.replace_file(f"{root}/one", b"second")
    disk.make_directory(f"{root}/d")
    disk.rename(f"{root}/one", f"{root}/two")
    disk.flush_directory(root)
    assert disk.read_file(f"{root}/two") == b"second"
    assert (disk.exists(f"{root}/one"), disk.exists(f"{root}/two")) == (False, True)
    (directory, file) = disk.list(root)
    assert (directory.name, directory.is_directory) == ("d", True)
    assert file == DirectoryEntry("two", 6, False)
    disk.remove(f"{root}/two")
    disk.remove_directory(f"{root}/d")
    disk.make_directory(root)
    assert disk.list(root) == []


def test_an_open_file_outlives_its_name(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/x", create=True)
    disk.write_at(file, 0, [b"still here"])
    disk.remove(f"{root}/x")
    assert disk.read_at(file, 0, 100) == b"still here"


@pytest.mark.parametrize("operation", ["open", "read_file", "remove", "list", "flush_directory"])
def test_what_is_not_there_is_not_found(disk: Disk, root: str, operation: str) -> None:
    with pytest.raises(DiskError) as caught:
        getattr(disk, operation)(f"{root}/missing")
    assert caught.value.kind is DiskErrorKind.NOT_FOUND
    assert caught.value.path == f"{root}/missing"


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(descriptor: int, buffers: list[bytes], position: int) -> int:
        return real(descriptor, [b"".join(bytes(buffer) for buffer in buffers)[:7]], position)

    monkeypatch.setattr(os, "pwritev", short)
    disk = PosixDisk()
    file = disk.open(f"{tmp_path}/x", create=True)
    disk.write_at(file, 2, [b"hello ", b"", b"torn and mended", b"!"])
    assert disk.read_at(file, 2, 100) == b"hello torn and mended!"


def test_a_full_disk_is_named() -> None:
    disk = PosixDisk()
    with pytest.raises(DiskError) as caught:
        disk.write_at(disk.open("/dev/full"), 0, [b"x"])
    assert caught.value.kind is DiskErrorKind.NO_SPACE


def test_a_large_file_is_mapped(tmp_path: Path) -> None:
    disk = PosixDisk()
    file = disk.open(f"{tmp_path}/x", create=True)
    content = os.urandom(200_000)
    disk.write_at(file, 0, [content])
    assert disk.map(file) == content


def test_space_is_that_of_the_volume(disk: Disk, root: str) -> None:
    total, usable = disk.space(root)
    assert 0 < usable <= total
    with pytest.raises(DiskError):
        disk.space(f"{root}/missing")


def test_when_a_file_was_written(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    os.utime(tmp_path / "x", (5, 5.25))
    assert PosixDisk().modified_ms(f"{tmp_path}/x") == 5250


def test_what_is_loaded_is_in_the_page_cache(tmp_path: Path) -> None:
    disk = PosixDisk()
    path = tmp_path / "cold"
    path.write_bytes(bytes(3 * MIB))
    file = disk.open(str(path))
    disk.flush(file)
    os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if is_cached(file, MIB):
        pytest.skip("this file system forgets nothing")
    assert disk.load(file, 100, MIB) == MIB
    assert all(is_cached(file, position) for position in range(100, 100 + MIB, 4096))
    assert disk.load(file, 0, 4 * MIB) == 3 * MIB, "up to its end"
    assert all(is_cached(file, position) for position in range(0, 3 * MIB, 4096))


def is_cached(file: PosixFile, position: int) -> bool:
    try:
        return os.preadv(file.descriptor, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
