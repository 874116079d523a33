"""A log directory that `log.dirs` lacks after a restart is missed: its partitions are offline, not recreated.

They were recreated in another directory, empty, and the status was healthy; with the directory back the logstore
refused to start with one partition in two places.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.shell.known_directories import KNOWN_LOG_DIRS
from barnabas_logstore.shell.log_dirs import LoadedDirectories, load_directories
from barnabas_logstore.shell.posix_disk import PosixDisk


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    return f"{tmp_path}/a", f"{tmp_path}/b"


def start(*paths: str) -> LoadedDirectories:
    return load_directories(PosixDisk(16), paths, "cluster", 1, "boot", TopicConfig(), threading.Event(), 1, failed={})


def offline(loaded: LoadedDirectories) -> list[tuple[str, str]]:
    return [(each.path, str(each.error)) for each in loaded.directories if each.error is not None]


def test_what_lies_there_is_not_recreated(paths: tuple[str, str]) -> None:
    assert offline(start(*paths)) == []
    left_out = start(paths[0])
    assert offline(left_out) == [(paths[1], f"log.dirs lacks {paths[1]}: ENOENT")]
    assert Directories(left_out.directories, Replicas(1, "cluster")).hides_partitions


def test_it_is_missed_until_it_is_back(paths: tuple[str, str]) -> None:
    start(*paths)
    for _ in range(2):
        assert offline(start(paths[0]))
    assert offline(start(*paths)) == []


def test_one_that_was_moved_is_known_by_its_id(paths: tuple[str, str]) -> None:
    start(*paths)
    Path(paths[1]).rename(f"{paths[1]}-moved")
    assert offline(start(paths[0], f"{paths[1]}-moved")) == []
    assert offline(start(paths[0])) == [(f"{paths[1]}-moved", f"log.dirs lacks {paths[1]}-moved: ENOENT")]


def test_one_that_was_replaced_is_known_by_its_path(paths: tuple[str, str]) -> None:
    start(*paths)
    Path(paths[1]).rename(f"{paths[1]}-broken")
    assert offline(start(*paths)) == []


def test_an_operator_can_give_it_up(paths: tuple[str, str]) -> None:
    start(*paths)
    known = Path(paths[0], KNOWN_LOG_DIRS)
    known.write_text("".join(line for line in known.read_text().splitlines(True) if not line.endswith("/b\n")))
    assert offline(start(paths[0])) == []
