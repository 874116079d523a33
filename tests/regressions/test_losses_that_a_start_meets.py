"""What a start finds missing, or loses itself, it says: it, and every start after it until the controller has heard.

A recovery cuts a torn tail and flushes what is left. That flush fails: the kernel has marked pages clean that are not
on the disk, so records that were acknowledged may be gone at the next start. The directory was offline in this start,
which was no more than the end of the process; the next one in the same boot knew nothing, stayed in every ISR, and
could be elected. The same where a flush failed after something else had failed in that directory; and where a log was
found to end before what had been flushed of it, had lost the file that says whose it is, or was gone as a whole.

And what costs nothing is not said. A process that dies within a write leaves a part of a batch that was never
acknowledged. Were that a reason for doubt, a logstore that is killed would have no vote on who leads: of two in-sync
replicas one lost its power, the other was killed within a write, and both were doubtful; the first was elected, without
its records.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.storage.support import flush_all

TOPIC_PARTITION = ("orders", 0)
LOG = "/data/orders-0/00000000000000000000.log"


@pytest.fixture
def disk() -> DiskModel:
    return DiskModel()


def opened(disk: DiskModel) -> LogDirectory:
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
    return directory


def started(disk: DiskModel) -> LogDirectory:
    directory = opened(disk)
    directory.load(lambda topic: TopicConfig(), 0)
    return directory


def a_trusted_log_of_two_batches(disk: DiskModel) -> LogDirectory:
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
    return directory


def stopped_cleanly(disk: DiskModel, directory: LogDirectory) -> None:
    flush_all(disk, directory)
    assert directory.shut_down({}, broker_epoch=7)


def cut_by_half(disk: DiskModel) -> None:
    disk.truncate(disk.open(LOG), disk.size(disk.open(LOG)) // 2)


def test_a_flush_that_fails_in_recovery_is_said_by_the_next_start(disk: DiskModel) -> None:
    a_trusted_log_of_two_batches(disk)
    end = disk.size(disk.open(LOG))
    disk.write_at(disk.open(LOG), end, (b"torn",))
    disk.faults = [Fault("flush", ".log")]
    with pytest.raises(DiskError):
        started(disk)
    disk.drop_clean_pages()
    assert started(disk).boot.may_lack_records


def test_an_error_of_a_read_in_recovery_costs_nothing(disk: DiskModel) -> None:
    a_trusted_log_of_two_batches(disk)
    disk.faults = [Fault("read_at", ".log")]
    with pytest.raises(DiskError):
        started(disk)
    assert not started(disk).boot.may_lack_records


def test_a_flush_that_fails_when_the_directory_has_failed_already_counts(disk: DiskModel) -> None:
    directory = a_trusted_log_of_two_batches(disk)
    directories = Directories([directory], Replicas(1, "c"))
    assert directories.go_offline("/data", DiskError(DiskErrorKind.IO, "write_at", LOG)) is not None
    assert directories.go_offline("/data", DiskError(DiskErrorKind.IO, "flush", LOG)) is None
    assert started(disk).boot.may_lack_records


def test_a_flush_that_fails_while_trust_is_written_counts(disk: DiskModel) -> None:
    directory = started(disk)
    trust = directory.boot.trust()
    directory.go_offline(DiskError(DiskErrorKind.IO, "flush", LOG))
    execute(disk, trust)
    directory.boot_noted()
    assert started(disk).boot.may_lack_records


def test_a_log_cut_below_what_was_flushed_is_doubtful_after_a_clean_stop_too(disk: DiskModel) -> None:
    """At the very end of a batch, with a watermark that had not reached this follower."""
    stopped_cleanly(disk, a_trusted_log_of_two_batches(disk))
    cut_by_half(disk)
    directory = started(disk)
    assert directory.was_shut_down_cleanly
    assert directory.logs[TOPIC_PARTITION].log_end_offset == 1
    assert directory.boot.may_lack_records


def test_a_log_that_does_not_say_whose_it_is_is_doubtful(disk: DiskModel) -> None:
    """It is set aside, and an empty one takes its place."""
    a_trusted_log_of_two_batches(disk)
    disk.lose_file("/data/orders-0/partition.metadata")
    assert started(disk).boot.may_lack_records


def test_a_log_that_is_gone_is_missed(disk: DiskModel) -> None:
    stopped_cleanly(disk, a_trusted_log_of_two_batches(disk))
    disk.rename("/data/orders-0", "/data/orders-0.old")
    assert started(disk).boot.may_lack_records


def broken_off(disk: DiskModel, byte_count: int) -> None:
    """A process has died within the write of a third batch."""
    file = disk.open(LOG)
    batch = bytearray(build_batch([Record(None, b"three" * 30, 1)]))
    batch[0:8] = (2).to_bytes(8, "big")
    disk.write_at(file, disk.size(file), (bytes(batch[:byte_count]),))


@pytest.mark.parametrize("byte_count", [1, 16, 60, 61, 150])
def test_a_write_that_its_process_did_not_live_to_finish_costs_nothing(disk: DiskModel, byte_count: int) -> None:
    a_trusted_log_of_two_batches(disk)
    broken_off(disk, byte_count)
    directory = started(disk)
    assert directory.logs[TOPIC_PARTITION].log_end_offset == 2
    assert not directory.boot.may_lack_records
    assert not started(disk).boot.may_lack_records


@pytest.mark.parametrize("byte", range(8, 12))
def test_a_batch_whose_length_is_damaged_is_not_taken_for_that(disk: DiskModel, byte: int) -> None:
    a_trusted_log_of_two_batches(disk)
    batch_bytes = disk.size(disk.open(LOG)) // 2
    (before,) = disk.read_at(disk.open(LOG), batch_bytes + byte, 1)
    bit = next(each for each in range(7) if not before & (1 << each))
    disk.flip_bit(LOG, batch_bytes + byte, bit)
    directory = started(disk)
    assert directory.logs[TOPIC_PARTITION].log_end_offset == 1
    assert directory.boot.may_lack_records


def test_a_part_of_a_batch_after_a_clean_stop_is_damage(disk: DiskModel) -> None:
    stopped_cleanly(disk, a_trusted_log_of_two_batches(disk))
    broken_off(disk, 100)
    assert started(disk).boot.may_lack_records


def test_a_topic_deleted_by_a_process_that_dies_at_once_is_not_missed(disk: DiskModel) -> None:
    directory = a_trusted_log_of_two_batches(disk)
    flush_all(disk, directory)
    execute(disk, directory.checkpoint_recovery_points())
    directory.delete(TOPIC_PARTITION, 0)
    assert not started(disk).boot.may_lack_records


def test_a_log_that_was_being_made_is_not_missed(disk: DiskModel) -> None:
    execute(disk, started(disk).boot.trust())
    disk.make_directory("/data/orders-0")
    assert not started(disk).boot.may_lack_records


def test_nothing_is_missed_where_nothing_is_amiss(disk: DiskModel) -> None:
    stopped_cleanly(disk, a_trusted_log_of_two_batches(disk))
    assert not started(disk).boot.may_lack_records
