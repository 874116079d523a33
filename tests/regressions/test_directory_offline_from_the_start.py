"""A log directory that is offline when a logstore starts hides its partitions: they are not recreated elsewhere.

They were, empty, in a sound directory: consumers found no records, producers began at offset 0, and once the disk was
back the logstore refused to start with one partition in two places.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cluster.messages import PartitionError
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.runtime.compression import CODECS
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.logstore import LogstoreConfig, LogstoreCore
from barnabas_logstore.shell.log_dirs import DirectoryLocks
from tests.unit.logstore.service.support import BROKER_EPOCH, CLUSTER_ID, EXCHANGE, NODE_ID, TOPIC_ID, Host, topic

OTHER_ID = bytes(15) + b"\1"


@pytest.fixture
def host() -> Host:
    """One directory is sound and empty; the other could not be read."""
    host = Host(directories=2)
    host.log_directories[0].error = DiskError(DiskErrorKind.IO, "open", "/data0")
    host.core = LogstoreCore(
        LogstoreConfig(NODE_ID, CLUSTER_ID),
        host.log_directories,
        [],
        CODECS,
        lambda prefix: f"{prefix}-member",
        lambda: 0,
        host.loggers,
    )
    host.core.on_registered(BROKER_EPOCH)
    host.greet(EXCHANGE)
    return host


def test_what_may_lie_there_is_not_recreated(host: Host) -> None:
    response = host.lead(topic(leader_epoch=1), full=True)
    assert response.partition_errors == [PartitionError(TOPIC_ID, 0, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert not host.disk.exists("/data1/orders-0")
    assert host.append(leader_epoch=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_has_never_been_led_is_made_in_a_sound_directory(host: Host) -> None:
    assert not host.lead(topic(name="new", topic_id=OTHER_ID)).partition_errors
    assert host.disk.exists("/data1/new-0")


def test_a_deletion_of_what_may_lie_there_is_done(host: Host) -> None:
    host.lead(topic(leader_epoch=1), full=True)
    assert not host.stop_replica().partition_errors
    assert host.append(leader_epoch=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_directory_that_is_out_of_reach_does_not_keep_the_others_from_starting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    locks = DirectoryLocks([f"{tmp_path}/file", f"{tmp_path}/sound"])
    assert list(locks.failed) == [f"{tmp_path}/file"]
    locks.close()
