"""A start that finds a partition in two log directories."""

from __future__ import annotations

from itertools import count

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskErrorKind
from barnabas_logstore.core.storage.directories.finished_moves import first_found_twice, without_moved
from barnabas_logstore.core.storage.directories.log_copy import MOVED_FROM, Origin
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.storage.support import append, batch, settle

OLD, NEW = "/old", "/new"
MOVED, OTHER = ("orders", 0), ("payments", 0)
TOPIC_ID = bytes(range(16))


def opened(disk: DiskModel, path: str) -> LogDirectory:
    names = count()
    directory = LogDirectory.open(
        disk,
        path,
        cluster_id="cluster-a",
        node_id=1,
        kernel_boot_id="boot-1",
        new_directory_id=path.encode().ljust(16),
        unique_name=lambda: f"{next(names):032x}",
    )
    assert isinstance(directory, LogDirectory), directory
    return directory


def found(directories: list[LogDirectory]) -> list[OpenedPartition]:
    return [each for directory in directories for each in directory.load(lambda topic: TopicConfig(), now_ms=0)]


@pytest.fixture
def disk() -> DiskModel:
    """Both partitions in /old, and orders-0 in /new as well."""
    disk = DiskModel()
    for path, names in ((OLD, (MOVED, OTHER)), (NEW, (MOVED,))):
        directory = opened(disk, path)
        directory.load(lambda topic: TopicConfig(), now_ms=0)
        for name in names:
            log = directory.create(name, TOPIC_ID, TopicConfig())
            assert isinstance(log, PartitionLog)
            append(log, batch(3), leader_epoch=2)
            settle(disk, log)
    return disk


@pytest.fixture
def moved(disk: DiskModel) -> DiskModel:
    """The one in /new says that it was moved there."""
    disk.replace_file(f"{NEW}/orders-0/{MOVED_FROM}", Origin(MOVED, OLD).format())
    return disk


def test_a_log_that_was_moved_is_in_its_new_directory_alone(moved: DiskModel) -> None:
    directories = [opened(moved, OLD), opened(moved, NEW)]
    remaining, deleted = without_moved(moved, directories, found(directories), 0)
    assert deleted == [f"{OLD}/orders-0"]
    assert [each.opened.log.directory for each in remaining] == [f"{OLD}/payments-0", f"{NEW}/orders-0"]
    assert first_found_twice(remaining) is None
    assert MOVED not in directories[0].logs
    again = [opened(moved, OLD), opened(moved, NEW)]
    assert [each.opened.log.directory for each in found(again)] == [f"{OLD}/payments-0", f"{NEW}/orders-0"]


def test_a_directory_that_fails_as_the_old_log_is_deleted_has_no_partitions(moved: DiskModel) -> None:
    """It is offline: what is in it is not led from a disk that has failed."""
    directories = [opened(moved, OLD), opened(moved, NEW)]
    partitions = found(directories)
    moved.faults.append(Fault("rename", f"{OLD}/orders-0", DiskErrorKind.IO))
    remaining, _ = without_moved(moved, directories, partitions, 0)
    assert directories[0].error is not None
    assert [each.opened.log.directory for each in remaining] == [f"{NEW}/orders-0"]


def test_what_no_move_has_left_twice_is_named(disk: DiskModel) -> None:
    directories = [opened(disk, OLD), opened(disk, NEW)]
    remaining, deleted = without_moved(disk, directories, found(directories), 0)
    assert not deleted
    assert first_found_twice(remaining) == (f"{NEW}/orders-0", f"{OLD}/orders-0")
