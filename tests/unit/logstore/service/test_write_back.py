"""The head start of a stop's flushes: harmless wherever it is given."""

from __future__ import annotations

from pathlib import Path

from barnabas_logstore.shell.posix_disk import PosixDisk
from barnabas_logstore.shell.write_back import begin_write_back


def test_it_ends_whatever_has_become_of_the_directories(tmp_path: Path) -> None:
    disk = PosixDisk()
    disk.watch_volume(str(tmp_path))
    (tmp_path / "file").write_bytes(b"x")
    thread = begin_write_back(disk, [str(tmp_path / "gone"), str(tmp_path / "file"), str(tmp_path)])
    thread.join(60)
    assert not thread.is_alive()
    assert (tmp_path / "file").read_bytes() == b"x"
