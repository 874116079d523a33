"""The name of a log directory is flushed at every start: whoever made it may have been killed before he did.

Directories that were there were never flushed, and the service makes them itself when it locks them: a power cut some
days after the first start could take all of them, flushed records and all.
"""

from __future__ import annotations

from random import Random

import pytest

from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from tests.sim.disk_model import DiskModel, Fault

PATH = "/var/lib/data"


def opened(disk: DiskModel) -> LogDirectory:
    directory = LogDirectory.open(
        disk,
        PATH,
        cluster_id="cluster",
        node_id=1,
        kernel_boot_id="boot",
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )
    assert isinstance(directory, LogDirectory)
    return directory


def with_directories() -> DiskModel:
    disk = DiskModel()
    for path in ("/var", "/var/lib", PATH):
        disk.make_directory(path)
    return disk


@pytest.mark.parametrize("seed", range(10))
def test_a_directory_that_somebody_made_survives(seed: int) -> None:
    disk = with_directories()
    opened(disk)
    disk.lose_power(Random(seed))
    assert disk.exists(f"{PATH}/meta.properties")


def test_what_lies_above_and_can_not_be_flushed_is_somebody_elses() -> None:
    disk = with_directories()
    disk.faults.append(Fault("flush_directory", "/var/lib"))
    assert opened(disk).error is None
