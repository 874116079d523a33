"""Directories in a log directory whose names no topic can have were taken for partitions.

One that is not UTF-8 (`caf\\xe9-1`, of an old archive) kept the logstore from starting. One with a space or a line feed
made the checkpoints unreadable: the next start that found them so knew no recovery point and no log start, and so
brought records back that DeleteRecords had removed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.cluster.inspection import NodeInspection, encode_inspection
from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage import checkpoints
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal
from barnabas_logstore.core.storage.directories.directory_inspection import InspectedDirectory, inspect_directory
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.shell.posix_disk import PosixDisk


def opened(path: Path) -> LogDirectory:
    directory = LogDirectory.open(
        PosixDisk(),
        str(path),
        cluster_id="c",
        node_id=1,
        kernel_boot_id="boot",
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )
    assert not isinstance(directory, DirectoryRefusal)
    return directory


@pytest.mark.parametrize("name", [b"caf\xe9-1", b"orders of 2026-1", b"a\nb-1", b".-1"])
def test_it_is_left_alone_and_the_checkpoints_can_be_read(tmp_path: Path, name: bytes) -> None:
    directory = opened(tmp_path)
    directory.load(lambda topic: TopicConfig(), 0)
    directory.create(("orders", 0), bytes(range(16)), TopicConfig())
    os.mkdir(os.fsencode(tmp_path) + b"/" + name)
    # Killed: a start after that writes the checkpoints of what it finds.
    found = opened(tmp_path).load(lambda topic: TopicConfig(), 0)
    assert [each.topic_partition for each in found] == [("orders", 0)]
    assert os.listdir(os.fsencode(tmp_path) + b"/" + name) == []
    content = (tmp_path / checkpoints.RECOVERY_POINT_CHECKPOINT).read_bytes()
    assert checkpoints.parse_offsets(content) == {("orders", 0): 0}


def test_an_inspection_names_it_if_it_was_set_aside(tmp_path: Path) -> None:
    opened(tmp_path)
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9-1.00-stray")
    inspected = inspect_directory(PosixDisk(), str(tmp_path))
    assert isinstance(inspected, InspectedDirectory)
    assert inspected.found.strays == ["caf\\udce9-1.00-stray"]
    assert encode_inspection(NodeInspection("c", 1, [inspected.found]))
