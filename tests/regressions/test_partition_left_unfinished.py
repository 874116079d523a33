"""An internal error in the creation of a partition left its directory, and the repeated command created it in another
log directory: the next start found it twice, which only an operator can decide, and the logstore stayed down.

Found by seed 110 with exceptions.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel

PATH = "/data"
TOPIC_ID = bytes(range(16))


class _Failing(DiskModel):
    """Fails once as nothing expects, when the topic's id is written."""

    fails = True

    def write_file(self, path: str, content: bytes) -> None:
        super().write_file(path, content)
        if self.fails and path.endswith("partition.metadata"):
            self.fails = False
            raise RuntimeError("unexpected")


def _opened(disk: DiskModel) -> LogDirectory:
    names = iter(f"{number:032x}" for number in range(10))
    directory = LogDirectory.open(
        disk,
        PATH,
        unique_name=lambda: next(names),
        cluster_id="cluster-a",
        node_id=1,
        kernel_boot_id="boot-1",
        new_directory_id=bytes(16),
    )
    assert isinstance(directory, LogDirectory)
    directory.load(lambda topic: TopicConfig(), now_ms=0)
    return directory


def test_nothing_stays_of_it() -> None:
    disk = _Failing()
    directory = _opened(disk)
    with pytest.raises(RuntimeError):
        directory.create(("orders", 0), TOPIC_ID, TopicConfig())
    assert not disk.exists(f"{PATH}/orders-0")
    assert directory.error is None
    assert isinstance(directory.create(("orders", 0), TOPIC_ID, TopicConfig()), PartitionLog)


def test_what_was_there_before_stays() -> None:
    disk = _Failing()
    directory = _opened(disk)
    disk.make_directory(f"{PATH}/orders-0")
    disk.fails = False
    disk.write_file(f"{PATH}/orders-0/of-an-operator", b"text")
    disk.fails = True
    with pytest.raises(RuntimeError):
        directory.create(("orders", 0), TOPIC_ID, TopicConfig())
    assert disk.read_file(f"{PATH}/orders-0/of-an-operator") == b"text"
