"""What a logstore says of its log directories (KIP-113, KIP-827)."""

from __future__ import annotations

from barnabas.cluster.administration import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirDescription,
    LogDirReplica,
    TopicIdPartition,
)
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.administration.log_dirs import REPLICAS_PER_PIECE
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.service.support import EXCHANGE, TOPIC_ID, Host, batch, topic

CAPACITY = 1 << 30


def new_host(partitions: int = 3) -> Host:
    host = Host(DiskModel(CAPACITY), directories=2)
    host.greet(EXCHANGE)
    host.lead(topic(partitions=partitions))
    return host


def describe(host: Host, *partitions: int) -> list[LogDirDescription]:
    asked = [TopicIdPartition(TOPIC_ID, number) for number in partitions]
    assert host.core.on_administration(5, DescribeLogDirsRequest(not partitions, asked))
    ((call_id, response),) = [answer for out in host.settle() for answer in out.administration]
    assert call_id == 5
    assert isinstance(response, DescribeLogDirsResponse)
    return response.log_dirs


def test_every_directory_is_described_with_its_replicas_and_its_room() -> None:
    host = new_host()
    host.append(partition=1)
    usable_bytes = CAPACITY - host.disk.used_bytes()
    assert describe(host) == [
        LogDirDescription(
            ErrorCode.NONE,
            "/data0",
            CAPACITY,
            usable_bytes,
            [LogDirReplica("orders", 0, 0, 0, False), LogDirReplica("orders", 2, 0, 0, False)],
        ),
        LogDirDescription(
            ErrorCode.NONE, "/data1", CAPACITY, usable_bytes, [LogDirReplica("orders", 1, len(batch()), 0, False)]
        ),
    ]


def test_only_what_is_asked_for_is_described_and_every_directory_all_the_same() -> None:
    first, second = describe(new_host(), 1, 77)
    assert (first.error_code, first.replicas) == (ErrorCode.NONE, [])
    assert [replica.partition for replica in second.replicas] == [1]


def test_an_offline_directory_is_a_storage_error_and_nothing_more() -> None:
    host = new_host()
    host.disk.faults.append(Fault("write_at", "/data0/", DiskErrorKind.IO))
    host.append()
    host.settle()
    first, second = describe(host)
    assert first == LogDirDescription(ErrorCode.KAFKA_STORAGE_ERROR, "/data0")
    assert second.error_code == ErrorCode.NONE


def test_a_directory_whose_room_is_unknown_is_offline() -> None:
    host = new_host()
    host.disk.faults.append(Fault("space", "/data1"))
    assert [each.error_code for each in describe(host)] == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    assert [directory.error is None for directory in host.log_directories] == [True, False]


def test_many_replicas_are_described_in_pieces() -> None:
    host = new_host(partitions=5 * REPLICAS_PER_PIECE)
    assert sum(len(each.replicas) for each in describe(host)) == 5 * REPLICAS_PER_PIECE
