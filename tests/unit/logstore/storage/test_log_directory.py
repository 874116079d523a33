"""A log directory through its life: whose it is, what it finds, how it ends."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal
from barnabas_logstore.core.storage.directories.log_directory import (
    LogDirectory,
    OpenedPartition,
    parse_partition_directory,
)
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import DeleteDirectoryEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.storage.support import WALL_MS, append, batch, flush_all, settle

PATH = "/data"
TOPIC_ID = bytes(range(16))
MARKER = f"{PATH}/.kafka_cleanshutdown"


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


def attempt(disk: DiskModel, **changes: object) -> LogDirectory | DirectoryRefusal:
    names = iter(f"{number:032x}" for number in range(1000))
    arguments: dict[str, object] = {
        "cluster_id": "cluster-a",
        "node_id": 1,
        "kernel_boot_id": "boot-1",
        "new_directory_id": bytes(16),
    } | changes
    return LogDirectory.open(disk, PATH, unique_name=lambda: next(names), **arguments)  # type: ignore[arg-type]


def opened(disk: DiskModel, **changes: object) -> LogDirectory:
    directory = attempt(disk, **changes)
    assert isinstance(directory, LogDirectory), directory
    return directory


def load(directory: LogDirectory) -> list[OpenedPartition]:
    return directory.load(lambda topic: TopicConfig(), now_ms=0)


def with_partition(disk: DiskModel, topic: str = "orders", partition: int = 0) -> tuple[LogDirectory, PartitionLog]:
    directory = opened(disk)
    load(directory)
    log = directory.create((topic, partition), TOPIC_ID, TopicConfig())
    assert isinstance(log, PartitionLog)
    append(log, batch(3), leader_epoch=2)
    settle(disk, log)
    return directory, log


def shut_down(disk: DiskModel, directory: LogDirectory, high_watermark: int = 3) -> bool:
    flush_all(disk, directory)
    return directory.shut_down(dict.fromkeys(directory.logs, high_watermark), broker_epoch=41)


def test_a_new_directory_is_signed(disk: DiskModel) -> None:
    opened(disk)
    assert disk.read_file(f"{PATH}/meta.properties").decode().splitlines() == [
        "#",
        "cluster.id=cluster-a",
        "directory.id=AAAAAAAAAAAAAAAAAAAAAA",
        "node.id=1",
        "version=1",
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"cluster_id": "cluster-b"}, "/data belongs to cluster cluster-a, not to cluster-b"),
        ({"node_id": 2}, "/data belongs to node 1, not to node 2"),
    ],
)
def test_the_directory_of_another_is_refused_in_one_line(
    disk: DiskModel, changes: dict[str, object], line: str
) -> None:
    opened(disk)
    refusal = attempt(disk, **changes)
    assert isinstance(refusal, DirectoryRefusal)
    assert refusal.message == line


def test_a_directory_whose_papers_can_not_be_read_is_refused(disk: DiskModel) -> None:
    opened(disk)
    disk.replace_file(f"{PATH}/meta.properties", b"version=0\nbroker.id=1\n")
    assert isinstance(attempt(disk), DirectoryRefusal)


def test_the_directory_id_stays(disk: DiskModel) -> None:
    assert opened(disk, new_directory_id=TOPIC_ID).identity.directory_id == TOPIC_ID
    assert opened(disk, new_directory_id=bytes(16)).identity.directory_id == TOPIC_ID


def test_a_clean_shutdown_and_start(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    assert shut_down(disk, directory)
    assert disk.read_file(MARKER) == b'{"version":0,"brokerEpoch":41}'
    again = opened(disk)
    assert again.was_shut_down_cleanly
    assert not disk.exists(MARKER), "the marker goes before anything is loaded"
    (found,) = load(again)
    assert (found.topic_partition, found.topic_id, found.high_watermark) == (("orders", 0), TOPIC_ID, 3)
    assert (found.opened.scanned_bytes, found.opened.log.log_end_offset) == (0, 3)
    assert found.opened.log.leader_epochs.entries() == [(2, 0)]


def test_a_start_that_dies_before_loading_leaves_no_marker_behind(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    shut_down(disk, directory)
    opened(disk)
    third = opened(disk)
    assert not third.was_shut_down_cleanly
    (found,) = load(third)
    assert found.opened.scanned_bytes > 0


def test_a_marker_that_was_taken_does_not_come_back_after_a_power_cut(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    shut_down(disk, directory)
    opened(disk)
    for seed in range(20):
        disk.lose_power(Random(seed))
        assert not disk.exists(MARKER)


def test_a_killed_process_is_recovered_with_a_scan(disk: DiskModel) -> None:
    with_partition(disk)
    again = opened(disk)
    assert not again.was_shut_down_cleanly
    (found,) = load(again)
    assert found.opened.log.log_end_offset == 3
    assert found.opened.scanned_bytes > 0


def test_no_marker_unless_everything_is_flushed(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    assert not directory.shut_down({}, broker_epoch=41)
    assert not disk.exists(MARKER)


def test_no_marker_after_an_error(disk: DiskModel) -> None:
    directory, log = with_partition(disk)
    directory.go_offline(DiskError(DiskErrorKind.IO, "flush", log.directory))
    assert directory.closing_flushes() == []
    assert not directory.shut_down({}, broker_epoch=41)
    assert not disk.exists(MARKER)


def test_one_error_takes_every_partition_of_the_directory_offline(disk: DiskModel) -> None:
    directory, log = with_partition(disk)
    other = directory.create(("payments", 7), TOPIC_ID, TopicConfig())
    assert isinstance(other, PartitionLog)
    append(other, batch(), token="waits")
    failed = directory.go_offline(DiskError(DiskErrorKind.IO, "write", log.directory))
    assert failed == [(log, []), (other, ["waits"])]
    assert other.append(memoryview(batch()), 0, WALL_MS, None) is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_page_cache_survives_a_process_but_not_a_boot(disk: DiskModel) -> None:
    first = opened(disk, kernel_boot_id="boot-1")
    assert first.boot.may_lack_records
    trusted(disk, first)
    assert not opened(disk, kernel_boot_id="boot-1").boot.may_lack_records
    assert opened(disk, kernel_boot_id="boot-2").boot.may_lack_records


def trusted(disk: DiskModel, directory: LogDirectory) -> None:
    """The controller has heard of what may be lacking."""
    execute(disk, directory.boot.trust())


def test_checkpoints_are_kafkas(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    execute(disk, directory.checkpoint_recovery_points())
    execute(disk, directory.checkpoint_high_watermarks({("orders", 0): 3, ("a", 11): 5}))
    assert disk.read_file(f"{PATH}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 0\n"
    assert disk.read_file(f"{PATH}/replication-offset-checkpoint") == b"0\n2\na 11 5\norders 0 3\n"


def test_a_high_watermark_past_a_shortened_log_is_taken_back(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    execute(disk, directory.checkpoint_high_watermarks({("orders", 0): 30}))
    (found,) = load(opened(disk))
    assert found.high_watermark == 3


@pytest.mark.parametrize("content", [b"", b"0\n", b"0\n2\norders 0 3\n", b"1\n1\norders 0 3\n", b"0\n1\norders x 3\n"])
def test_a_torn_checkpoint_is_as_good_as_none(disk: DiskModel, content: bytes) -> None:
    with_partition(disk)
    disk.replace_file(f"{PATH}/recovery-point-offset-checkpoint", content)
    (found,) = load(opened(disk))
    assert found.opened.log.log_end_offset == 3


def test_a_deleted_partition_goes_at_once_and_its_files_later(disk: DiskModel) -> None:
    directory, log = with_partition(disk)
    assert directory.delete(("orders", 0), now_ms=1000) is None
    assert directory.logs == {}
    (aside,) = [entry.name for entry in disk.list(PATH) if entry.is_directory]
    assert aside == f"orders-0.{0:032x}-delete"
    assert directory.take_deletions(1000 + log.config.file_delete_delay_ms - 1) == []
    (effect,) = directory.take_deletions(1000 + log.config.file_delete_delay_ms)
    execute(disk, effect)
    assert [entry.name for entry in disk.list(PATH) if entry.is_directory] == []
    assert directory.take_deletions(1 << 60) == []


def test_a_deletion_that_a_crash_interrupted_is_taken_up_again(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    directory.delete(("orders", 0), now_ms=0)
    again = opened(disk)
    assert load(again) == []
    (effect,) = again.take_deletions(0)
    execute(disk, effect)
    assert load(opened(disk)) == []


def test_a_recreated_topic_does_not_meet_its_predecessor(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    directory.delete(("orders", 0), now_ms=0)
    log = directory.create(("orders", 0), bytes(16), TopicConfig())
    assert isinstance(log, PartitionLog)
    assert log.log_end_offset == 0


def test_a_stray_partition_is_set_aside_and_kept(disk: DiskModel) -> None:
    directory, _ = with_partition(disk)
    assert directory.set_aside(("orders", 0)) is None
    again = opened(disk)
    assert load(again) == []
    assert again.take_deletions(1 << 60) == []
    assert disk.exists(f"{PATH}/orders-0.{0:032x}-stray/{0:020d}.log")


@pytest.mark.parametrize(("deleted", "is_suspected"), [(10, False), (1, True)])
def test_another_partition_on_its_way_out_does_not_account_for_one_that_is_gone(
    disk: DiskModel, deleted: int, is_suspected: bool
) -> None:
    """The process dies before the checkpoints forget the partition that is deleted."""
    directory, log = with_partition(disk, partition=10)
    assert isinstance(directory.create(("orders", 1), TOPIC_ID, TopicConfig()), PartitionLog)
    flush_all(disk, directory)
    assert log.recovery_point == 3
    for effect in (directory.checkpoint_recovery_points(), directory.boot.trust()):
        execute(disk, effect)
    directory.delete(("orders", deleted), now_ms=0)
    if deleted != 10:
        execute(disk, DeleteDirectoryEffect(log.directory))
    again = opened(disk)
    load(again)
    assert again.boot.may_lack_records is is_suspected


def test_the_name_of_a_directory_set_aside_fits_a_file_name(disk: DiskModel) -> None:
    topic = "t" * 249
    directory, _ = with_partition(disk, topic)
    assert directory.delete((topic, 0), now_ms=0) is None
    assert max(len(entry.name) for entry in disk.list(PATH)) == 255


@pytest.mark.parametrize("operation", ["make_directory", "open", "write_at"])
def test_a_partition_that_can_not_be_made_takes_the_directory_offline(disk: DiskModel, operation: str) -> None:
    directory = opened(disk)
    load(directory)
    disk.faults.append(Fault(operation, "orders-0", DiskErrorKind.IO))
    error = directory.create(("orders", 0), TOPIC_ID, TopicConfig())
    assert isinstance(error, DiskError)
    assert directory.error is error


@pytest.mark.parametrize("operation", ["make_directory", "open", "write_at"])
def test_a_partition_for_which_there_is_no_room_leaves_nothing_behind(disk: DiskModel, operation: str) -> None:
    directory = opened(disk)
    load(directory)
    disk.faults.append(Fault(operation, "orders-0", DiskErrorKind.NO_SPACE))
    error = directory.create(("orders", 0), TOPIC_ID, TopicConfig())
    assert isinstance(error, DiskError)
    assert error.is_lack_of_room
    assert directory.error is None
    assert not disk.exists(f"{PATH}/orders-0")
    assert isinstance(directory.create(("orders", 0), TOPIC_ID, TopicConfig()), PartitionLog)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-12", ("a-b", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("orders", None),
        ("orders-", None),
        ("-0", None),
        ("orders-01", None),
        ("orders--1", ("orders-", 1)),
        ("orders-0.0a1b-delete", None),
        ("orders-0.0a1b-stray", None),
        ("orders-²", None),
        ("orders-99999999999999999999", None),
        ("orders of 2026-0", None),
        (".-0", None),
    ],
)
def test_the_names_of_partition_directories(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_partition_directory(name) == parsed
