"""Descriptors are kept for their next use, within bounds, and never past the name that they stand for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas_logstore.shell.open_files import OpenFiles, PosixFile
from barnabas_logstore.shell.posix_disk import PosixDisk


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_file_that_is_asked_for_again_is_the_same(tmp_path: Path) -> None:
    disk = PosixDisk()
    assert disk.open(f"{tmp_path}/x", create=True) is disk.open(f"{tmp_path}/x")


def test_the_least_recently_used_is_closed_unless_somebody_holds_it(tmp_path: Path) -> None:
    disk = PosixDisk(files_max=2)
    descriptors = [disk.open(f"{tmp_path}/{name}", create=True).descriptor for name in "ab"]
    held = disk.open(f"{tmp_path}/a")
    disk.open(f"{tmp_path}/c", create=True)
    assert not is_open(descriptors[1])
    disk.open(f"{tmp_path}/d", create=True)
    assert disk.open(f"{tmp_path}/a") is not held
    assert is_open(held.descriptor)


def test_a_file_stays_open_until_what_was_written_is_flushed(tmp_path: Path) -> None:
    disk = PosixDisk(files_max=1)
    written = disk.open(f"{tmp_path}/written", create=True)
    disk.write_at(written, 0, [b"x"])
    for name in "abc":
        disk.open(f"{tmp_path}/{name}", create=True)
    assert disk.open(f"{tmp_path}/written") is written
    disk.flush(written)
    disk.open(f"{tmp_path}/d", create=True)
    assert disk.open(f"{tmp_path}/written") is not written


def test_what_was_opened_beyond_the_limit_is_closed_as_soon_as_it_is_flushed(tmp_path: Path) -> None:
    disk = PosixDisk(files_max=4)
    descriptors = {}
    for number in range(40):
        written = disk.open(f"{tmp_path}/{number}", create=True)
        disk.write_at(written, 0, [b"x"])
        descriptors[number] = written.descriptor
    del written
    assert all(map(is_open, descriptors.values()))
    disk.flush(disk.open(f"{tmp_path}/30"))
    disk.open(f"{tmp_path}/another", create=True)
    assert [number for number, each in descriptors.items() if not is_open(each)] == [30], "wherever it stands"
    for number in range(40):
        disk.flush(disk.open(f"{tmp_path}/{number}"))
    for number in range(40):
        disk.open(f"{tmp_path}/more{number}", create=True)
    descriptors_left = [os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]
    left = [path for path in descriptors_left if path.startswith(str(tmp_path))]
    assert len(left) <= 5


@pytest.mark.parametrize("change", ["remove", "rename", "rename of its directory", "replaced by a rename"])
def test_a_name_never_leads_to_the_file_that_had_it_before(tmp_path: Path, change: str) -> None:
    disk = PosixDisk()
    os.mkdir(tmp_path / "d")
    path = f"{tmp_path}/d/x"
    before = disk.open(path, create=True)
    disk.write_at(before, 0, [b"before"])
    match change:
        case "remove":
            disk.remove(path)
        case "rename":
            disk.rename(path, f"{tmp_path}/d/y")
        case "rename of its directory":
            disk.rename(f"{tmp_path}/d", f"{tmp_path}/e")
            os.mkdir(tmp_path / "d")
        case _:
            disk.replace_file(path, b"")
    assert disk.read_file(path) == b"" if change.startswith("replaced") else not disk.exists(path)
    assert disk.size(disk.open(path, create=True)) == 0
    assert disk.read_at(before, 0, 10) == b"before"


def test_a_name_that_changes_while_its_file_is_opened_is_not_kept(tmp_path: Path) -> None:
    files = OpenFiles(10)
    seen = files.names_changed
    file = PosixFile(f"{tmp_path}/x", os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT))
    files.forget(str(tmp_path))
    assert files.keep(file, seen) is file
    assert len(files) == 0


def test_a_mapping_ends_with_the_content_that_it_shows(tmp_path: Path) -> None:
    disk = PosixDisk()
    file = disk.open(f"{tmp_path}/x", create=True)
    disk.write_at(file, 0, [bytes(100_000)])
    mapped = disk.map(file)
    assert disk.map(file) is mapped
    disk.write_at(file, 100_000, [b"more"])
    assert disk.map(file) == bytes(100_000) + b"more"
    disk.truncate(file, 5)
    assert disk.map(file) == bytes(5)


def test_no_descriptor_left_is_mended_by_closing_what_is_not_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = PosixDisk()
    unused = disk.open(f"{tmp_path}/unused", create=True).descriptor
    real = os.open

    def few(path: str, flags: int, mode: int = 0o777) -> int:
        if is_open(unused):
            raise OSError(24, "Too many open files")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", few)
    disk.open(f"{tmp_path}/needed", create=True)
    assert disk.exists(f"{tmp_path}/needed")


def test_a_file_that_was_only_made_empty_may_be_closed(tmp_path: Path) -> None:
    """Ten thousand new partitions are fifty thousand of them."""
    disk = PosixDisk(files_max=1)
    made = disk.open(f"{tmp_path}/made", create=True)
    disk.truncate(made, 0)
    descriptor = made.descriptor
    del made
    disk.open(f"{tmp_path}/another", create=True)
    assert not is_open(descriptor)


def test_emptying_a_file_does_not_flush_what_was_written_to_it(tmp_path: Path) -> None:
    disk = PosixDisk(files_max=1)
    written = disk.open(f"{tmp_path}/written", create=True)
    disk.write_at(written, 0, [b"x"])
    disk.truncate(written, 0)
    descriptor = written.descriptor
    del written
    disk.open(f"{tmp_path}/another", create=True)
    assert is_open(descriptor)
