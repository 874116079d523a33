"""A move between log directories that was asked for, and has not begun, ends with its topic.

It was kept by name: where the topic was created again, in the directory that the old one was to move to, the new
log was "moved" into its own directory, over itself, and then deleted. A file system replaces no directory that has
files: there the log directory went offline (seed 372 with exceptions, which had nothing to do with it).
"""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import StopReplica
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.service.support import EXCHANGE, READ, Host, fetch, offsets, topic
from tests.unit.logstore.service.test_moves import ask, directory_of, tick


def test_a_topic_that_is_created_again_is_not_moved() -> None:
    host = Host(directories=2)
    host.greet(EXCHANGE, READ)
    host.lead(topic())
    host.append()
    assert ask(host, "/data1") is ErrorCode.NONE
    host.control(StopReplica([host.stopped()]))
    host.core._directories.preferred["orders", 0] = host.core._directories.by_path["/data1"]
    host.lead(topic(leader_epoch=1))
    assert directory_of(host) == "/data1/orders-0"
    assert host.append(leader_epoch=1).error_code == ErrorCode.NONE
    for now_ms in (1, 2, 100_000, 100_001):
        tick(host, now_ms)
    for path, names in (("/data0", []), ("/data1", ["orders-0"])):
        assert [each.name for each in host.disk.list(path) if each.is_directory] == names
    assert offsets(host.read(fetch(0)).partitions[0].records) == [0]
    assert host.append(leader_epoch=1).base_offset == 1


def test_the_model_of_a_disk_replaces_no_directory_that_has_files() -> None:
    disk = DiskModel()
    for name in ("/a", "/b"):
        disk.make_directory(name)
    disk.rename("/a", "/b")
    disk.make_directory("/a")
    disk.write_file("/b/file", b"")
    with pytest.raises(DiskError):
        disk.rename("/a", "/b")
