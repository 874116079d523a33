"""Cleaning up after a run waits for what the last of its processes still holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.reaper import clean_up

PREFIX = "bf-of-no-run"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system, mounted in the directory of a run."""
    path = tmp_path / "run-of-faults" / "logstore-0"
    path.mkdir(parents=True)
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "none", str(path)], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no `mount` here")
    if mounted.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", str(path)], capture_output=True, check=False)


def _hold(path: Path) -> subprocess.Popen[str]:
    """Start a process that no pid file names, and that works in `path` until its standard input ends."""
    argv = [sys.executable, "-c", "print('there', flush=True); input()"]
    process = subprocess.Popen(argv, cwd=path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


def test_a_file_system_that_is_busy_for_a_while_is_unmounted_and_removed(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = _hold(disk)
    looked: list[float] = []

    def sleep(seconds: float) -> None:
        looked.append(seconds)
        holder.communicate("\n")

    monkeypatch.setattr("tests.faults.reaper.time.sleep", sleep)
    assert clean_up(disk.parent, PREFIX)
    assert len(looked) == 1
    assert not disk.parent.exists()
    assert str(disk) not in Path("/proc/mounts").read_text()


def test_what_stays_busy_is_reported(disk: Path) -> None:
    holder = _hold(disk)
    assert not clean_up(disk.parent, PREFIX, seconds_max=0.1)
    holder.communicate("\n")
    assert clean_up(disk.parent, PREFIX)
