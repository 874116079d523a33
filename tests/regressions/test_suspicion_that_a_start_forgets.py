"""What a power cut or a failed flush may have cost a replica, every start says until the controller has heard it.

A logstore loses power, with records that it has acknowledged and not flushed. It starts in the new boot, notes that
boot, and is killed before it has registered. It starts again: same boot, so nothing seemed to be lacking, it stayed in
every ISR, and could be elected without the records that it had lost. The same after a clean stop in between; and after
a failed flush, whose pages are gone though the boot is the same.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from tests.sim.disk_model import DiskModel


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


def started(disk: DiskModel, boot: str) -> LogDirectory:
    directory = LogDirectory.open(
        disk,
        "/data",
        cluster_id="c",
        node_id=1,
        kernel_boot_id=boot,
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )
    assert isinstance(directory, LogDirectory)
    directory.load(lambda topic: TopicConfig(), 0)
    return directory


def heard_by_the_controller(disk: DiskModel, directory: LogDirectory) -> None:
    execute(disk, directory.boot.trust())


def test_a_kill_right_after_a_power_cut_does_not_hide_it(disk: DiskModel) -> None:
    heard_by_the_controller(disk, started(disk, "boot-1"))
    assert not started(disk, "boot-1").boot.may_lack_records, "the process died, the page cache did not"
    after_the_power_cut = started(disk, "boot-2")
    assert after_the_power_cut.boot.may_lack_records
    after_a_kill = started(disk, "boot-2")
    assert after_a_kill.boot.may_lack_records
    heard_by_the_controller(disk, after_a_kill)
    assert not started(disk, "boot-2").boot.may_lack_records


def test_a_clean_stop_before_the_controller_has_heard_does_not_hide_it(disk: DiskModel) -> None:
    heard_by_the_controller(disk, started(disk, "boot-1"))
    assert started(disk, "boot-2").shut_down({}, broker_epoch=7)
    again = started(disk, "boot-2")
    assert again.was_shut_down_cleanly
    assert again.boot.may_lack_records


def test_after_a_clean_stop_a_new_boot_lacks_nothing(disk: DiskModel) -> None:
    first = started(disk, "boot-1")
    heard_by_the_controller(disk, first)
    assert first.shut_down({}, broker_epoch=7)
    assert not started(disk, "boot-2").boot.may_lack_records
    assert not started(disk, "boot-2").boot.may_lack_records, "it was noted at once"


def test_a_failed_flush_may_cost_records_in_the_same_boot(disk: DiskModel) -> None:
    directory = started(disk, "boot-1")
    heard_by_the_controller(disk, directory)
    directory.go_offline(DiskError(DiskErrorKind.IO, "flush", "/data/orders-0/00000000000000000000.log"))
    assert started(disk, "boot-1").boot.may_lack_records


def test_another_error_costs_none(disk: DiskModel) -> None:
    directory = started(disk, "boot-1")
    heard_by_the_controller(disk, directory)
    directory.go_offline(DiskError(DiskErrorKind.IO, "read_at", "/data/orders-0/00000000000000000000.log"))
    assert not started(disk, "boot-1").boot.may_lack_records
