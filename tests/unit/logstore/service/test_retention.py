"""Retention and DeleteRecords as a logstore does them: when it looks, what it tells, when files are gone."""

from __future__ import annotations

import pytest

from barnabas.cluster.administration import (
    DeletedRecords,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from barnabas.cluster.messages import LeaderAndIsr, StopReplica
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effects import ReplaceEffect
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.service.support import (
    EXCHANGE,
    READ,
    TOPIC_ID,
    WALL_MS,
    WATCH,
    Host,
    batch,
    fetch,
    states,
    topic,
)

CHECK_MS = 1_000
ORDERS = "/data0/orders-0"


@pytest.fixture
def host() -> Host:
    return new_host({"retention.ms": "5000"})


def new_host(configs: dict[str, str], disk: DiskModel | None = None) -> Host:
    """Three batches in three segments: each batch is a second later than the one before, which is segment.ms."""
    host = Host(disk, retention_check_interval_ms=CHECK_MS, log_start_checkpoint_interval_ms=2_000)
    host.greet(EXCHANGE, READ, WATCH)
    host.lead(topic(configs={"segment.ms": "500", "file.delete.delay.ms": "3000", **configs}))
    for number in range(3):
        host.append(batch(timestamp_ms=WALL_MS - 8_000 + number * 2_000))
    tick(host, 0)
    return host


def tick(host: Host, now_ms: int) -> None:
    host.now_ms = now_ms
    host.core.tick(now_ms)
    host.settle()


def files(host: Host, suffix: str) -> list[str]:
    return [entry.name for entry in host.disk.list(ORDERS) if entry.name.endswith(suffix)]


def delete_records(host: Host, offset: int, *, topic_id: bytes = TOPIC_ID) -> DeletedRecords:
    request = DeleteRecordsRequest(1_000, [DeleteRecordsPartition(topic_id, 0, offset)])
    assert host.core.on_administration(9, request)
    ((_, response),) = [answer for out in host.settle() for answer in out.administration]
    assert isinstance(response, DeleteRecordsResponse)
    (deleted,) = response.partitions
    return deleted


def test_old_segments_go_when_it_is_time_to_look_and_their_files_later(host: Host) -> None:
    tick(host, CHECK_MS - 1)
    assert len(files(host, ".log")) == 3
    tick(host, CHECK_MS)
    assert files(host, ".log") == [f"{2:020d}.log"]
    assert len(files(host, ".deleted")) == 2 * 3 + 1
    tick(host, CHECK_MS + 2_999)
    assert files(host, ".deleted")
    tick(host, CHECK_MS + 3_000)
    assert not files(host, ".deleted")
    assert host.read(fetch(1)).partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert host.query_offset(-2).offset == 2


def test_each_watcher_gets_the_log_start(host: Host) -> None:
    assert host.watch()[0].log_start_offset == 0
    host.now_ms = CHECK_MS
    host.core.tick(CHECK_MS)
    assert [state.log_start_offset for state in states(host.turn())] == [2]


def test_a_changed_config_counts_from_the_next_look_on() -> None:
    host = new_host({"retention.ms": "-1"})
    tick(host, CHECK_MS)
    assert len(files(host, ".log")) == 3
    host.lead(topic(partition_epoch=1, configs={"retention.ms": "5000"}))
    tick(host, 2 * CHECK_MS)
    assert len(files(host, ".log")) == 1


def test_deleted_records_are_gone_at_once_and_their_segments_with_the_next_tick() -> None:
    host = new_host({"retention.ms": "-1"})
    assert delete_records(host, 2) == DeletedRecords(ErrorCode.NONE, 2)
    assert host.read(fetch(1)).partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    tick(host, 1)
    assert files(host, ".log") == [f"{2:020d}.log"]


def test_what_delete_records_refuses() -> None:
    host = new_host({"cleanup.policy": "compact"})
    assert delete_records(host, 2).error_code == ErrorCode.POLICY_VIOLATION
    assert delete_records(host, 2, topic_id=b"x" * 16).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    host.lead(topic(1, 1, leader=2, replicas=[1, 2]))
    assert delete_records(host, 2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_log_start_is_written_down_and_read_again() -> None:
    disk = DiskModel()
    host = new_host({"retention.ms": "-1", "segment.ms": "100000"}, disk)
    assert delete_records(host, 2) == DeletedRecords(ErrorCode.NONE, 2)
    tick(host, 2_000)
    assert disk.read_file("/data0/log-start-offset-checkpoint") == b"0\n1\norders 0 2\n"
    again = Host(disk)
    (partition,) = again.core.partitions
    assert (partition.log.log_start_offset, partition.high_watermark, partition.log.log_end_offset) == (2, 3, 3)


def test_the_log_start_of_a_deleted_topic_is_not_that_of_the_next_one() -> None:
    host = new_host({"retention.ms": "-1", "segment.ms": "100000"})
    delete_records(host, 2)
    tick(host, 2_000)
    host.holds_effects = True
    host.core.on_control(7, host.command(StopReplica([host.stopped()])))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(topic_id=b"n" * 16)])))
    host.turn()
    replaced = [effect.replacement.path for effect in host.held if isinstance(effect, ReplaceEffect)]
    assert sorted(replaced) == ["/data0/log-start-offset-checkpoint", "/data0/recovery-point-offset-checkpoint"]
    assert not host.disk.exists(ORDERS)
    host.holds_effects = False
    host.run_effects()
    host.settle()
    assert host.disk.exists(ORDERS)
    assert host.disk.read_file("/data0/log-start-offset-checkpoint") == b"0\n0\n"


def test_a_disk_that_fails_a_rename_is_offline(host: Host) -> None:
    host.disk.faults.append(Fault("rename", f"{ORDERS}/", DiskErrorKind.IO))
    host.now_ms = CHECK_MS
    host.core.tick(CHECK_MS)
    assert [path for path, _ in host.turn().offline] == ["/data0"]


def test_nothing_goes_by_the_defaults_before_the_topics_own_settings_are_known() -> None:
    """A compacted topic has the defaults too, until the controller has spoken."""
    day_ms = 24 * 60 * 60 * 1000
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(configs={"segment.ms": "500", "retention.ms": "-1"}))
    for days in (10, 9, 8):
        host.append(batch(timestamp_ms=WALL_MS - days * day_ms))
    tick(host, 0)
    again = Host(host.disk, retention_check_interval_ms=CHECK_MS)
    for number in range(4):
        tick(again, number * CHECK_MS)
    assert len(files(again, ".log")) == 3
    again.lead(topic(leader_epoch=1))
    tick(again, 4 * CHECK_MS)
    assert f"{1:020d}.log" not in files(again, ".log")


def test_a_restart_finishes_what_a_crash_broke_off(host: Host) -> None:
    tick(host, CHECK_MS)
    assert files(host, ".deleted")
    again = Host(host.disk)
    assert not files(again, ".deleted")
    (partition,) = again.core.partitions
    assert partition.log.log_start_offset == 2
