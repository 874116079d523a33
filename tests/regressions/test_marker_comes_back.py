"""The clean-shutdown marker is gone for good before anything is loaded, also when the process before this one removed
it and was killed at once.

It removed the name and did not live to flush the directory. The next start found no marker, recovered, and was cut off
with its indexes half made; after the power cut the marker was back, and vouched for them.
"""

from __future__ import annotations

from random import Random

import pytest

from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from tests.sim.disk_model import DiskModel, MachineStopped

PATH = "/data"
MARKER = f"{PATH}/.kafka_cleanshutdown"


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


def stopped_right_after_removing_it() -> DiskModel:
    disk = DiskModel()
    assert opened(disk).shut_down({}, broker_epoch=1)
    changes = 0
    while disk.exists(MARKER):
        disk.interrupt_after = changes
        with pytest.raises(MachineStopped):
            opened(disk)
        changes += 1
    return disk


@pytest.mark.parametrize("seed", range(10))
def test_a_marker_that_was_removed_and_not_flushed_stays_away(seed: int) -> None:
    disk = stopped_right_after_removing_it()
    assert not opened(disk).was_shut_down_cleanly
    disk.lose_power(Random(seed))
    assert not opened(disk).was_shut_down_cleanly
