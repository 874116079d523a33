"""A partition moves from one log directory to another while it is written to and read (KIP-113)."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.cluster.administration import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ReplicaMove,
)
from barnabas.cluster.messages import LeaderAndIsr, StopReplica, UpdateMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.directories.finished_moves import finish_moves
from barnabas_logstore.core.storage.directories.log_copy import MOVED_FROM, Origin, parse_origin
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import CopyEffect, DeleteDirectoryEffect, StorageEffect
from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.service.support import (
    CLUSTER_ID,
    EXCHANGE,
    READ,
    WALL_MS,
    Host,
    append_results,
    batch,
    fetch,
    offsets,
    topic,
)

NAME = ("orders", 0)


@pytest.fixture
def host() -> Host:
    return new_host()


def new_host(disk: DiskModel | None = None) -> Host:
    """Six batches in three segments, in the first of two directories."""
    host = Host(disk, directories=2)
    host.greet(EXCHANGE, READ)
    host.lead(topic(configs={"segment.ms": "1500", "retention.ms": "-1"}))
    for number in range(6):
        host.append(batch(timestamp_ms=WALL_MS - 8_000 + number * 1_000))
    tick(host, 0)
    return host


def tick(host: Host, now_ms: int) -> None:
    host.now_ms = now_ms
    host.core.tick(now_ms)
    host.settle()


def ask(host: Host, path: str, *, partition: int = 0, name: str = "orders") -> ErrorCode:
    assert host.core.on_administration(3, AlterReplicaLogDirsRequest([ReplicaMove(name, partition, path)]))
    ((_, response),) = [answer for _ in range(2) for answer in host.turn().administration]
    assert isinstance(response, AlterReplicaLogDirsResponse)
    return ErrorCode(response.error_codes[0])


def describe(host: Host) -> list[tuple[str, int, int, int, bool]]:
    """(directory, partition, bytes, lag, is future)"""
    assert host.core.on_administration(4, DescribeLogDirsRequest(True, []))
    answers = [answer for _ in range(50) for answer in run_all_but_copies(host)]
    ((_, response),) = answers
    assert isinstance(response, DescribeLogDirsResponse)
    return [
        (described.path, replica.partition, replica.byte_count, replica.offset_lag, replica.is_future)
        for described in response.log_dirs
        for replica in described.replicas
    ]


def run_all_but_copies(host: Host) -> list[tuple[int, object]]:
    out = host.turn()
    for effect in [effect for effect in host.held if not isinstance(effect, CopyEffect)]:
        host.run_effect(effect)
    return list(out.administration)


def directory_of(host: Host) -> str:
    (partition,) = host.core.partitions
    return partition.log.directory


def read_all(host: Host) -> list[int]:
    found: list[int] = []
    while found[-1:] != [host.core.partitions[0].log.log_end_offset - 1]:
        found += offsets(host.read(fetch(found[-1] + 1 if found else 0)).partitions[0].records)
    return found


def copies(host: Host) -> list[StorageEffect]:
    return [effect for effect in host.held if isinstance(effect, CopyEffect)]


# --- moving ---


def test_a_partition_moves_with_all_its_records_and_goes_on(host: Host) -> None:
    before = read_all(host)
    assert ask(host, "/data1") is ErrorCode.NONE
    tick(host, 1)
    assert directory_of(host) == "/data1/orders-0"
    assert not host.disk.exists("/data0/orders-0")
    assert not host.disk.exists(f"/data1/orders-0/{MOVED_FROM}")
    assert read_all(host) == before
    assert host.append().base_offset == 6
    assert host.query_offset(WALL_MS - 5_500).offset == 3
    again = Host(host.disk, directories=2)
    assert directory_of(again) == "/data1/orders-0"
    assert again.core.partitions[0].log.log_end_offset == 7


def test_the_old_directory_goes_with_a_delay_and_its_checkpoints_forget_the_partition(host: Host) -> None:
    tick(host, 60_000)
    ask(host, "/data1")
    tick(host, 60_001)
    old = [entry.name for entry in host.disk.list("/data0") if entry.name.endswith("-delete")]
    assert len(old) == 1
    assert host.disk.read_file("/data0/recovery-point-offset-checkpoint") == b"0\n0\n"
    assert host.disk.read_file("/data1/recovery-point-offset-checkpoint") == b"0\n1\norders 0 6\n"
    tick(host, 200_000)
    assert not host.disk.exists(f"/data0/{old[0]}")


def test_what_is_appended_meanwhile_is_moved_too_and_answered(host: Host) -> None:
    host.holds_effects = True
    ask(host, "/data1")
    host.core.tick(1)
    results = []
    for _ in range(40):
        host.send(host.append_request(batch(timestamp_ms=WALL_MS)))
        results += append_results(host.turn())
        if host.held:
            host.run_effect(host.held[0])
    host.holds_effects = False
    results += [result for out in host.settle() for result in append_results(out)]
    assert [result.error_code for result in results] == [0] * 40
    tick(host, 2)
    assert directory_of(host) == "/data1/orders-0"
    assert read_all(host) == list(range(46))
    again = Host(host.disk, directories=2)
    assert again.core.partitions[0].log.log_end_offset == 46


def test_a_copy_that_is_being_filled_is_described_as_future(host: Host) -> None:
    host.holds_effects = True
    ask(host, "/data1")
    host.core.tick(1)
    host.turn()
    byte_count = host.core.partitions[0].log.byte_count
    assert describe(host) == [("/data0", 0, byte_count, 0, False), ("/data1", 0, 0, 6, True)]
    for effect in copies(host):
        host.run_effect(effect)
    host.turn()
    assert describe(host)[1] == ("/data1", 0, 2 * len(batch()), 4, True)


def test_the_directory_it_is_in_already_is_no_move_and_ends_another_one(host: Host) -> None:
    host.holds_effects = True
    ask(host, "/data1")
    host.core.tick(1)
    host.turn()
    assert ask(host, "/data0") is ErrorCode.NONE
    host.holds_effects = False
    host.run_effects()
    tick(host, 2)
    assert directory_of(host) == "/data0/orders-0"
    tick(host, 3)
    assert [entry.name for entry in host.disk.list("/data1") if entry.is_directory] == []


def test_a_move_there_and_back(host: Host) -> None:
    for now_ms, path in enumerate(["/data1", "/data0", "/data1"], 1):
        ask(host, path)
        tick(host, now_ms)
        assert directory_of(host) == f"{path}/orders-0"
    assert read_all(host) == list(range(6))


# --- refusals and preferences ---


def test_what_is_refused(host: Host) -> None:
    assert ask(host, "/elsewhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert ask(host, "/data1", name="nowhere") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    host.log_directories[1].error = DiskError(DiskErrorKind.IO, "write", "/data1")
    assert ask(host, "/data1") is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_partition_that_is_not_here_yet_is_made_where_it_was_asked_for(host: Host) -> None:
    metadata = UpdateMetadata(1, True, CLUSTER_ID, 5, [], [], [topic(partitions=3)])
    host.control(metadata)
    assert ask(host, "/data0", partition=1) is ErrorCode.REPLICA_NOT_AVAILABLE
    assert ask(host, "/data0", partition=2) is ErrorCode.REPLICA_NOT_AVAILABLE
    host.control(LeaderAndIsr(False, [topic(partition_epoch=1, partitions=3)]))
    assert {partition.log.directory for partition in host.core.partitions} == {f"/data0/orders-{n}" for n in range(3)}


# --- what goes wrong ---


def test_a_deleted_partition_takes_its_move_along(host: Host) -> None:
    host.holds_effects = True
    ask(host, "/data1")
    host.core.tick(1)
    host.turn()
    host.core.on_control(7, host.command(StopReplica([host.stopped()])))
    host.turn()
    host.holds_effects = False
    host.run_effects()
    for now_ms in (2, 100_000, 100_001):
        tick(host, now_ms)
    for path in ("/data0", "/data1"):
        assert [entry.name for entry in host.disk.list(path) if entry.is_directory] == []


@pytest.mark.parametrize("skip", range(6))
def test_no_room_at_the_target_leaves_the_log_where_it_is(host: Host, skip: int) -> None:
    host.disk.faults.append(Fault("write_at", "-future/", DiskErrorKind.NO_SPACE, skip=skip))
    ask(host, "/data1")
    tick(host, 1)
    tick(host, 2)
    assert directory_of(host) == "/data0/orders-0"
    assert host.append().error_code == ErrorCode.NONE
    assert all(directory.error is None and directory.no_room is None for directory in host.log_directories)
    assert [entry.name for entry in host.disk.list("/data1") if entry.is_directory] == []


def test_a_broken_disk_at_the_target_is_offline_and_the_log_is_served_on(host: Host) -> None:
    host.disk.faults.append(Fault("write_at", "-future/", DiskErrorKind.IO, skip=2))
    ask(host, "/data1")
    tick(host, 1)
    assert [directory.error is None for directory in host.log_directories] == [True, False]
    assert directory_of(host) == "/data0/orders-0"
    assert host.append().error_code == ErrorCode.NONE


# --- crashes ---


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_at_any_moment_of_a_move_loses_nothing(seed: int) -> None:
    """A power cut after so many effects; the logstore is started again, and moves on."""
    random = Random(seed)
    disk = DiskModel(chance=random)
    host = new_host(disk)
    flush_everything(host)
    host.holds_effects = True
    ask(host, "/data1")
    host.core.tick(1)
    host.turn()
    for _ in range(random.randrange(14)):
        if host.held:
            host.run_effect(host.held[0])
        host.turn()
    disk.lose_power(random)
    again = restarted(disk)
    assert again.core.partitions[0].log.log_end_offset == 6
    again.greet(EXCHANGE, READ)
    again.lead(topic(1, 1, configs={"segment.ms": "1500", "retention.ms": "-1"}))
    assert read_all(again) == list(range(6))
    for now_ms in (1, 2):
        tick(again, now_ms)
    assert read_all(again) == list(range(6))
    names = [entry.name for path in ("/data0", "/data1") for entry in disk.list(path) if entry.name == "orders-0"]
    assert len(names) == 1


def flush_everything(host: Host) -> None:
    for directory in host.log_directories:
        for log in directory.logs.values():
            flush = log.flushes.begin(log.log_end_offset)
            execute(host.disk, flush)
            log.on_flushed(flush)
    host.disk.flush_directory("/")


def restarted(disk: DiskModel) -> Host:
    """As the shell starts it: moves that were all but done are finished first."""
    paths = [f"{path}/orders-0" for path in ("/data0", "/data1") if disk.exists(f"{path}/orders-0")]
    logs = [open_log(disk, path, NAME, TopicConfig(), recovery_point=0, shut_down_cleanly=False).log for path in paths]
    found = [(NAME, log.directory, log.log_end_offset) for log in logs]
    for old in finish_moves(disk, found):
        execute(disk, DeleteDirectoryEffect(old))
    return Host(disk, directories=2)


@pytest.mark.parametrize("content", [b"", b"orders 0", b"orders\n/data0\n", b"orders x\n/data0\n", b"\xff\xfe\n\n"])
def test_a_torn_marker_says_nothing(content: bytes) -> None:
    assert parse_origin(content) is None


def test_a_marker_says_whose_copy_it_is() -> None:
    origin = Origin(("a topic-1", 12), "/data 0/logs")
    assert parse_origin(origin.format()) == origin
