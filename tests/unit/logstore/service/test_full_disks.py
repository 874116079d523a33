"""A full disk in the life of a logstore: refusals, reads, reports, and recovery without a restart."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import PartitionReference
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.maintenance.full_disks import PROBE_MS
from barnabas_logstore.core.streams.outbox import Outputs
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.service.support import (
    EXCHANGE,
    READ,
    TOPIC_ID,
    WALL_MS,
    WATCH,
    Host,
    append_results,
    batch,
    fetch,
    offsets,
    topic,
)

ROOM = 1 << 30


def new_host(configs: dict[str, str] | None = None, *, directories: int = 1, partitions: int = 1) -> Host:
    host = Host(DiskModel(ROOM), directories=directories)
    host.greet(EXCHANGE, READ, WATCH)
    host.lead(topic(partitions=partitions, configs=configs))
    return host


def fill(host: Host) -> None:
    host.disk.capacity_bytes = host.disk.used_bytes() + 20


def tick(host: Host, now_ms: int) -> Outputs:
    """A tick and all that follows; what was said of room, and of directories that went offline."""
    host.now_ms = now_ms
    host.core.tick(now_ms)
    said = Outputs()
    for out in host.settle():
        said.full_disks += out.full_disks
        said.offline += out.offline
    return said


def lacks_of_space(said: Outputs) -> list[tuple[str, str | None]]:
    return [(path, None if lack is None else lack.kind.value) for path, lack in said.full_disks]


def test_appends_are_refused_reads_go_on_and_room_brings_everything_back() -> None:
    host = new_host()
    assert host.append().error_code == ErrorCode.NONE
    tick(host, 0)
    fill(host)
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    host.settle()
    assert offsets(host.read(fetch(0)).partitions[0].records) == [0]
    assert host.query_offset(-1).offset == 1
    assert not tick(host, PROBE_MS).offline
    host.disk.capacity_bytes = ROOM
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert lacks_of_space(tick(host, 2 * PROBE_MS)) == [("/data0", None)]
    result = host.append()
    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 1)
    assert offsets(host.read(fetch(0)).partitions[0].records) == [0, 1]


def test_the_directory_is_named_once_with_what_found_no_room() -> None:
    host = new_host(partitions=2)
    fill(host)
    host.send(host.append_request(), host.append_request(partition=1))
    said = [out for _ in range(3) for out in host.settle()]
    assert [lacks_of_space(out) for out in said if out.full_disks] == [[("/data0", "ENOSPC")]]
    codes = [result.error_code for out in said for result in append_results(out)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert all(partition.online for partition in host.core.partitions)


def test_a_probe_leaves_nothing_behind() -> None:
    host = new_host()
    fill(host)
    host.append()
    used_bytes = host.disk.used_bytes()
    tick(host, PROBE_MS)
    assert host.disk.used_bytes() == used_bytes
    host.disk.capacity_bytes = ROOM
    tick(host, 2 * PROBE_MS)
    assert host.disk.used_bytes() == used_bytes


def test_another_directory_goes_on_and_gets_the_new_partitions() -> None:
    host = new_host(directories=2)
    host.disk.faults.append(Fault("write_at", "/data0/", DiskErrorKind.NO_SPACE, times=1_000))
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    host.lead(topic(partition_epoch=1, partitions=4))
    assert [result.error_code for result in (host.append(partition=number) for number in range(1, 4))] == [0, 0, 0]
    directories = [partition.log.directory.rpartition("/")[0] for partition in host.core.partitions]
    assert directories == ["/data0", "/data1", "/data1", "/data1"]


def test_a_partition_that_finds_no_room_is_refused_and_made_when_there_is_some() -> None:
    host = new_host()
    host.disk.faults.append(Fault("make_directory", "orders-1", DiskErrorKind.NO_SPACE))
    (refused,) = host.lead(topic(partition_epoch=1, partitions=2)).partition_errors
    assert (refused.partition, refused.error_code) == (1, ErrorCode.KAFKA_STORAGE_ERROR)
    assert host.append(partition=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    tick(host, PROBE_MS)
    assert not host.lead(topic(partition_epoch=1, partitions=2)).partition_errors
    assert host.append(partition=1).error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"])
def test_a_checkpoint_that_finds_no_room_is_written_later(name: str) -> None:
    host = new_host({"flush.ms": "1"})
    tick(host, 0)
    host.append()
    tick(host, 100)
    tick(host, 1_000)
    host.disk.faults.append(Fault("replace_file", name, DiskErrorKind.NO_SPACE))
    assert lacks_of_space(tick(host, 60_000)) == [("/data0", "ENOSPC")]
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert lacks_of_space(tick(host, 62_000)) == [("/data0", None)]
    tick(host, 121_000)
    assert host.disk.read_file(f"/data0/{name}") == b"0\n1\norders 0 1\n"


def test_a_flush_that_finds_no_room_is_done_later() -> None:
    host = new_host({"flush.ms": "500"})
    tick(host, 0)
    host.append()
    tick(host, 100)
    host.disk.faults.append(Fault("replace_file", "leader-epoch-checkpoint", DiskErrorKind.NO_SPACE))
    assert lacks_of_space(tick(host, 1_000)) == [("/data0", "ENOSPC")]
    tick(host, 2_000)
    tick(host, 3_000)
    assert host.core.partitions[0].log.recovery_point == 1


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("write_at", DiskErrorKind.IO),
        ("write_at", DiskErrorKind.READ_ONLY),
        ("flush", DiskErrorKind.NO_SPACE),
    ],
)
def test_what_is_broken_is_offline_and_stays_so(operation: str, kind: DiskErrorKind) -> None:
    host = new_host({"flush.messages": "1"})
    host.disk.faults.append(Fault(operation, ".log", kind))
    host.send(host.append_request())
    out = host.turn()
    assert [(path, error.kind) for path, error in out.offline] == [("/data0", kind)]
    assert [result.error_code for result in append_results(out)] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert not tick(host, PROBE_MS).full_disks
    assert host.core.all_directories_offline


def test_a_stop_on_a_full_disk_leaves_no_marker_and_loses_nothing_that_was_written() -> None:
    host = new_host()
    host.append()
    fill(host)
    host.append()
    host.settle()
    host.core.stopping.begin()
    host.settle()
    host.held += host.core.stopping.take_closing_flushes()
    host.run_effects()
    assert host.core.stopping.shut_down() == ["/data0"]
    host.disk.capacity_bytes = ROOM
    again = Host(host.disk)
    assert again.core.partitions[0].log.log_end_offset == 1


def test_deleting_records_makes_room() -> None:
    host = new_host({"segment.ms": "10", "retention.ms": "-1", "file.delete.delay.ms": "0"})
    large = batch(value_bytes=100_000, timestamp_ms=WALL_MS - 1_000)
    host.append(large)
    host.append(batch(timestamp_ms=WALL_MS))
    tick(host, 0)
    fill(host)
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    host.settle()
    (partition,) = host.core.partitions
    assert partition.log.delete_records(1, partition.high_watermark) == 1
    used_bytes = host.disk.used_bytes()
    for now_ms in (60_000, 61_000):
        tick(host, now_ms)
    assert host.disk.used_bytes() < used_bytes - 100_000


def test_the_controller_gets_the_partitions_in_a_full_directory() -> None:
    host = new_host(directories=2, partitions=2)
    host.disk.faults.append(Fault("write_at", "/data0/", DiskErrorKind.NO_SPACE, times=1_000))
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    again = host.lead(topic(partitions=2))
    assert (again.partition_errors, again.without_room) == ([], [PartitionReference(TOPIC_ID, 0)])
    host.disk.faults.clear()
    tick(host, PROBE_MS)
    assert host.lead(topic(partitions=2)).without_room == []
