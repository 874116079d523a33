"""What is read from the disk before a consumer asks for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas_logstore.shell import read_ahead
from barnabas_logstore.shell.open_files import PosixFile
from barnabas_logstore.shell.read_ahead import READ_AHEAD_BYTES, ReadAhead, is_cached, request_bytes

MEBIBYTE = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> PosixFile:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(100))
    return PosixFile(str(path), os.open(path, os.O_RDWR))


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """From where to where, in order."""
    ranges: list[tuple[int, int]] = []

    def note(file: PosixFile, begin: int, end: int) -> None:
        if end > begin:
            ranges.append((begin, end))

    monkeypatch.setattr(read_ahead, "request_bytes", note)
    return ranges


def test_nothing_is_read_ahead_of_who_has_never_waited(file: PosixFile, requested: list[tuple[int, int]]) -> None:
    ahead = ReadAhead()
    for position in range(MEBIBYTE, 20 * MEBIBYTE, MEBIBYTE):
        assert not ahead.is_due(file.path, position)
        ahead.request(file, position, was_cold=False)
    assert requested == []


def test_who_reads_on_after_a_wait_is_read_ahead_for_without_gaps(
    file: PosixFile, requested: list[tuple[int, int]]
) -> None:
    ahead = ReadAhead()
    ahead.request(file, MEBIBYTE, was_cold=True)
    for position in range(2 * MEBIBYTE, 40 * MEBIBYTE, MEBIBYTE):
        if ahead.is_due(file.path, position):
            ahead.request(file, position, was_cold=False)
        begun, ends = requested[0][0], [end for _, end in requested]
        assert begun == MEBIBYTE
        assert [begin for begin, _ in requested[1:]] == ends[:-1]
        assert READ_AHEAD_BYTES // 2 < ends[-1] - position <= READ_AHEAD_BYTES


def test_several_readers_of_a_file_are_distinguished(file: PosixFile, requested: list[tuple[int, int]]) -> None:
    ahead = ReadAhead()
    for start in (0, 100, 200):
        ahead.request(file, start * MEBIBYTE, was_cold=True)
    for start in (0, 100, 200):
        ahead.request(file, (start + 3) * MEBIBYTE, was_cold=False)
    ahead_of = [(begin // MEBIBYTE, end // MEBIBYTE) for begin, end in requested]
    assert ahead_of == [(0, 4), (100, 104), (200, 204), (4, 7), (104, 107), (204, 207)]


def test_what_is_remembered_is_bounded(file: PosixFile, requested: list[tuple[int, int]]) -> None:
    ahead = ReadAhead()
    for start in range(3000):
        ahead.request(file, 10 * start * MEBIBYTE, was_cold=True)
    assert not ahead.is_due(file.path, 3 * MEBIBYTE)
    assert ahead.is_due(file.path, (10 * 2999 + 3) * MEBIBYTE)


def test_what_is_requested_comes_into_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "cold"
    path.write_bytes(bytes(3 * MEBIBYTE))
    file = PosixFile(str(path), os.open(path, os.O_RDWR))
    os.fsync(file.descriptor)
    os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    if is_cached(file, MEBIBYTE):
        pytest.skip("this file system forgets nothing")
    request_bytes(file, 0, 3 * MEBIBYTE)
    os.pread(file.descriptor, 3 * MEBIBYTE, 0)
    assert is_cached(file, MEBIBYTE)
    assert is_cached(file, 9 * MEBIBYTE), "past its end there is nothing to wait for"
