"""A log that is damaged at rest ends earlier than it did, and its logstore reports that it may lack records.

A logstore is killed, and while it is down a bit flips in its log. Its start finds the batch that does not add up, and
drops it with all that follows, committed records among them. The boot is the same and so the page cache survived: it
used to stay in every ISR, and was elected leader without those records.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from tests.sim.disk_model import DiskModel

TOPIC_PARTITION = ("orders", 0)
LOG = "/data/orders-0/00000000000000000000.log"


def started(disk: DiskModel) -> LogDirectory:
    directory = LogDirectory.open(
        disk,
        "/data",
        cluster_id="c",
        node_id=1,
        kernel_boot_id="boot-1",
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )
    assert isinstance(directory, LogDirectory)
    directory.load(lambda topic: TopicConfig(), 0)
    return directory


def a_log_of_two_batches(disk: DiskModel) -> None:
    """A log of two batches whose writer was killed."""
    directory = started(disk)
    execute(disk, directory.boot.trust())
    log = directory.create(TOPIC_PARTITION, bytes(15) + b"1", TopicConfig())
    assert isinstance(log, PartitionLog)
    for value in (b"one", b"two"):
        batch = memoryview(bytearray(build_batch([Record(None, value, 1)])))
        assert isinstance(log.append(batch, 0, 1, None), AppendOutcome)
        write = log.begin_write()
        assert write is not None
        execute(disk, write)
        log.on_written(write)


def test_a_flipped_bit_makes_a_replica_doubtful() -> None:
    disk = DiskModel()
    a_log_of_two_batches(disk)
    assert not started(disk).boot.may_lack_records, "killed, and nothing is amiss"
    file = disk.open(LOG)
    last = disk.size(file) - 1
    (byte,) = disk.read_at(file, last, 1)
    disk.write_at(file, last, (bytes([byte ^ 1]),))
    directory = started(disk)
    assert directory.logs[TOPIC_PARTITION].log_end_offset == 1
    assert directory.boot.may_lack_records
    assert started(disk).boot.may_lack_records, "until the controller has heard it"


def test_a_log_that_ends_before_its_high_watermark_makes_a_replica_doubtful() -> None:
    disk = DiskModel()
    a_log_of_two_batches(disk)
    disk.replace_file("/data/replication-offset-checkpoint", b"0\n1\norders 0 2\n")
    disk.truncate(disk.open(LOG), disk.size(disk.open(LOG)) // 2)
    directory = started(disk)
    assert directory.logs[TOPIC_PARTITION].log_end_offset == 1
    assert directory.boot.may_lack_records
