"""The cleaner's checkpoint names no offset that its log, as it is now, was not cleaned and durable below.

Recovery accepts a gap between segments below that offset, since a cleaned segment was flushed as a whole. The file
could say more than the log: a start left the entries of logs that had been removed meanwhile, and of logs that it had
found to be shorter, and a truncation lowered the entry only after records had taken the place of those that were cut
off. These records are flushed later. A power cut that lost the end of a segment of theirs left a gap that looked like
compaction's: the log went on behind it, and the replica never fetched what was lost. A log that a start set aside, for
want of its topic id, left its entry to the next log of its name.

Nor may it say less. The entry of a log that went offline alone was dropped while its recovery point became 0: the next
start took the first gap of a log that Kafka had compacted for damage, and removed everything behind it.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from random import Random

import pytest

from barnabas.channel.messages import ReplicaData
from barnabas.cluster.administration import AlterReplicaLogDirsRequest, ReplicaMove
from barnabas.cluster.messages import LeaderAndIsr, StopReplica
from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.core.replica.containment import PRODUCER_EXPIRY
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import ReplaceEffect, StorageEffect, TruncateEffect
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from barnabas_logstore.shell.log_dirs import load_directories
from tests.regressions.test_gaps_between_cleaned_segments import (
    BATCH,
    END_OFFSET,
    FOUR_A_SEGMENT,
    GAPS,
    PATH,
    TOPIC_PARTITION,
    compacted,
    offsets_of,
)
from tests.sim.disk_model import DiskModel, MachineStopped
from tests.unit.logstore.replication.support import (
    LEADER,
    REPLICAS,
    FollowingHost,
    answer,
    fetch_of,
    following_host,
    partition_of,
    stored,
)
from tests.unit.logstore.service.support import EXCHANGE, Host, topic
from tests.unit.logstore.service.test_moves import ask, tick
from tests.unit.logstore.storage.support import flush_all, read_all

CLEANED_UPTO = 12
CHECKPOINT = "/data/cleaner-offset-checkpoint"
POWER_CUTS = 25
NOTHING = b"0\n0\n"


def started(disk: DiskModel, boot: str, path: str = "/data") -> LogDirectory:
    directory = LogDirectory.open(
        disk,
        path,
        cluster_id="c",
        node_id=1,
        kernel_boot_id=boot,
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )
    assert isinstance(directory, LogDirectory)
    directory.load(lambda topic: FOUR_A_SEGMENT, 0)
    return directory


def append(disk: DiskModel, log: PartitionLog, count: int) -> None:
    """As a follower does it: nothing is flushed."""
    for _ in range(count):
        assert isinstance(log.append(memoryview(bytearray(BATCH)), 3, 1, None), AppendOutcome)
        write = log.begin_write()
        assert write is not None
        execute(disk, write)
        log.on_written(write)


def lacks_nothing_after_power_cuts(disk: DiskModel, removed: tuple[int, ...] = ()) -> int:
    """Whatever is lost is lost from the end. Return how often something was."""
    losses = 0
    for seed in range(POWER_CUTS):
        dark = copy.deepcopy(disk)
        dark.lose_power(Random(seed))
        log = started(dark, "boot-2").logs.get(TOPIC_PARTITION)
        end_offset = 0 if log is None else log.log_end_offset
        losses += end_offset < END_OFFSET
        if log is not None:
            assert offsets_of(dark) == [offset for offset in range(end_offset) if offset not in removed], seed
    return losses


# --- what a start finds ---


def removed_while_down() -> DiskModel:
    disk = compacted([], CLEANED_UPTO)
    for entry in disk.list(PATH):
        disk.remove(f"{PATH}/{entry.name}")
    disk.remove_directory(PATH)
    return disk


def replicate_again(disk: DiskModel, directory: LogDirectory) -> None:
    log = directory.create(TOPIC_PARTITION, bytes(15) + b"1", FOUR_A_SEGMENT)
    assert isinstance(log, PartitionLog)
    append(disk, log, 2)
    flush_all(disk, directory)
    append(disk, log, END_OFFSET - 2)


def damaged_while_down() -> DiskModel:
    """The second segment is, in its second batch."""
    disk = compacted([], CLEANED_UPTO)
    disk.flip_bit(f"{PATH}/{4:020d}.log", len(BATCH) + 30, 0)
    return disk


def fetch_again(disk: DiskModel, directory: LogDirectory) -> None:
    log = directory.logs[TOPIC_PARTITION]
    assert log.log_end_offset == 5
    append(disk, log, END_OFFSET - 5)


Grow = Callable[[DiskModel, LogDirectory], None]
FOUND = pytest.mark.parametrize(
    ("make", "grow", "content"),
    [(removed_while_down, replicate_again, NOTHING), (damaged_while_down, fetch_again, b"0\n1\ntable 0 5\n")],
)


@FOUND
def test_a_log_that_is_less_than_it_was_grows_under_no_old_entry(
    make: Callable[[], DiskModel], grow: Grow, content: bytes
) -> None:
    disk = make()
    directory = started(disk, "boot-1")
    assert disk.read_file(CHECKPOINT) == content
    execute(disk, directory.boot.trust())
    grow(disk, directory)
    assert lacks_nothing_after_power_cuts(disk) > 0


@FOUND
def test_a_start_that_is_broken_off_leaves_no_old_entry_to_the_next_one(
    make: Callable[[], DiskModel], grow: Grow, content: bytes
) -> None:
    sound = make()
    for operations in range(1_000):
        disk = copy.deepcopy(sound)
        disk.interrupt_after = operations
        try:
            started(disk, "boot-1")
        except MachineStopped:
            pass
        else:
            break
        directory = started(disk, "boot-1")
        dark = copy.deepcopy(disk)
        dark.lose_power(Random(operations))
        assert dark.read_file(CHECKPOINT) == content, "durable before anything grows"
        if operations % 4 == 0:
            grow(disk, directory)
            disk.lose_power(Random(operations))
            log = started(disk, "boot-2").logs.get(TOPIC_PARTITION)
            assert log is None or offsets_of(disk) == list(range(log.log_end_offset))
    assert operations > 10


def test_what_was_removed_after_a_clean_stop_is_forgotten_too() -> None:
    disk = compacted([], CLEANED_UPTO)
    directory = started(disk, "boot-1")
    flush_all(disk, directory)
    assert directory.shut_down({}, 1)
    disk.rename(PATH, "/data/another-0")
    directory = started(disk, "boot-1")
    assert list(directory.logs) == [("another", 0)]
    assert disk.read_file(CHECKPOINT) == NOTHING


def test_a_start_leaves_what_is_true() -> None:
    """Gaps of Kafka's cleaner stay accepted, again and again."""
    gaps = (2, 3, 6, 7)
    disk = compacted(list(gaps), CLEANED_UPTO)
    for _ in range(2):
        started(disk, "boot-1")
        assert disk.read_file(CHECKPOINT) == b"0\n1\ntable 0 12\n"
        disk.replace_file("/data/recovery-point-offset-checkpoint", NOTHING)
    assert started(disk, "boot-1").logs[TOPIC_PARTITION].log_end_offset == END_OFFSET
    lacks_nothing_after_power_cuts(disk, gaps)


def test_the_old_directory_of_a_log_that_was_moved_forgets_it() -> None:
    disk = compacted([], CLEANED_UPTO)
    directory = started(disk, "boot-1")
    assert disk.read_file(CHECKPOINT) == b"0\n1\ntable 0 12\n"
    directory.delete_old(TOPIC_PARTITION, 0)
    assert disk.read_file(CHECKPOINT) == NOTHING
    assert disk.read_file("/data/recovery-point-offset-checkpoint") == NOTHING


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_log_that_is_set_aside_leaves_nothing_to_the_next_of_its_name(is_torn: bool) -> None:
    disk = compacted([], CLEANED_UPTO)
    directory = started(disk, "boot-1")
    flush_all(disk, directory)
    execute(disk, directory.checkpoint_recovery_points())
    metadata = f"{PATH}/partition.metadata"
    if is_torn:
        disk.replace_file(metadata, b"version: 0\ntop")
    else:
        disk.remove(metadata)
    loaded = load_directories(disk, ["/data"], "c", 1, "boot-1", FOUR_A_SEGMENT, threading.Event(), 1, failed={})
    (directory,) = loaded.directories
    assert directory.error is None
    assert loaded.partitions == []
    assert disk.read_file(CHECKPOINT) == NOTHING
    assert disk.read_file("/data/recovery-point-offset-checkpoint") == NOTHING
    execute(disk, directory.boot.trust())
    replicate_again(disk, directory)
    assert lacks_nothing_after_power_cuts(disk) > 0


def test_the_next_start_keeps_the_gaps_of_a_log_that_went_offline_alone() -> None:
    disk = compacted(GAPS, CLEANED_UPTO)
    directory = started(disk, "boot-1")
    flush_all(disk, directory)
    log = directory.logs[TOPIC_PARTITION]
    log.fail(DiskError(DiskErrorKind.IO, "trust", log.directory))
    execute(disk, directory.checkpoint_recovery_points())
    execute(disk, directory.checkpoint_cleaner_offsets())
    assert disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\ntable 0 0\n"
    assert started(disk, "boot-1").logs[TOPIC_PARTITION].log_end_offset == END_OFFSET
    assert offsets_of(disk) == [offset for offset in range(END_OFFSET) if offset not in GAPS]


# --- truncations, deletions and moves ---

NAME = ("orders", 0)
SEGMENTS = TopicConfig(segment_bytes=4 * len(stored(0)))
ENTRY = f"orders 0 {CLEANED_UPTO}".encode()


def follow_to(host: FollowingHost, end_offset: int) -> None:
    for offset in range(partition_of(host).log.log_end_offset, end_offset):
        answer(host, fetch_of(host), ReplicaData(1, 0, 0, LEADER, 0, 0, records=stored(offset)))
        host.settle()


def clean(host: Host) -> None:
    """Have everything durable, and the checkpoint say that all but the last segment is compacted."""
    (directory,) = [each for each in host.log_directories if NAME in each.logs]
    flush_all(host.disk, directory)
    execute(host.disk, directory.checkpoint_recovery_points())
    directory.logs[NAME].compacted_upto(CLEANED_UPTO)
    execute(host.disk, directory.checkpoint_cleaner_offsets())
    assert ENTRY in cleaner_checkpoint(host.disk)


def cleaner_checkpoint(disk: DiskModel, directory: str = "/data0") -> bytes:
    return disk.read_file(f"{directory}/cleaner-offset-checkpoint")


def cleaned_follower() -> FollowingHost:
    host = following_host()
    partition_of(host).log.apply_config(SEGMENTS)
    follow_to(host, END_OFFSET)
    clean(host)
    return host


def cleaned_leader() -> Host:
    host = Host(directories=2)
    host.greet(EXCHANGE)
    host.lead()
    host.core.partitions[0].log.apply_config(SEGMENTS)
    for _ in range(END_OFFSET):
        host.append()
    clean(host)
    return host


def has_no_gap(disk: DiskModel, seed: int) -> bool:
    """Whether the log has none after a power cut now."""
    dark = copy.deepcopy(disk)
    dark.lose_power(Random(seed))
    again = Host(dark)
    assert not again.log_directories[0].error
    log = again.log_directories[0].logs[NAME]
    return read_all(dark, log) == [(offset, offset) for offset in range(log.log_end_offset)]


def test_a_follower_is_cut_below_what_is_compacted_and_power_is_cut() -> None:
    host = cleaned_follower()
    fetch = fetch_of(host)
    host.holds_effects = True
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 5, 0, diverging_epoch=0, diverging_end_offset=5))
    host.turn()
    while not any(isinstance(effect, TruncateEffect) for effect in host.held):
        assert host.held
        for effect in list(host.held):
            host.run_effect(effect)
            assert has_no_gap(host.disk, 1)
        host.turn()
    assert ENTRY not in cleaner_checkpoint(host.disk), "before anything is cut off"
    host.holds_effects = False
    host.run_effects()
    assert partition_of(host).log.log_end_offset == 5
    follow_to(host, END_OFFSET)
    for seed in range(POWER_CUTS):
        assert has_no_gap(host.disk, seed), seed
    tick(host, 1)
    assert b"orders 0 5\n" in cleaner_checkpoint(host.disk), "what was kept is compacted as it was"


def test_a_log_in_doubt_keeps_its_entry() -> None:
    host = cleaned_follower()
    host.core.contained.log_in_doubt(PRODUCER_EXPIRY, ValueError("planted"), partition_of(host).log)
    tick(host, 1)
    assert partition_of(host).log.error is not None
    assert b"orders 0 0\n" in host.disk.read_file("/data0/recovery-point-offset-checkpoint")
    assert ENTRY in cleaner_checkpoint(host.disk)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_log_in_doubt_that_is_about_to_be_cut_has_its_entry_until_it_is(is_begun: bool) -> None:
    host = cleaned_follower()
    fetch = fetch_of(host)
    host.holds_effects = True
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 5, 0, diverging_epoch=0, diverging_end_offset=5))
    host.turn()
    while is_begun and not any(isinstance(effect, TruncateEffect) for effect in host.held):
        for effect in list(host.held):
            host.run_effect(effect)
        host.turn()
    log = partition_of(host).log
    assert log.is_truncating
    host.core.contained.log_in_doubt(PRODUCER_EXPIRY, ValueError("planted"), log)
    host.turn()
    assert log.error is not None
    host.holds_effects = False
    host.run_effects()
    tick(host, 1)
    assert (cleaner_checkpoint(host.disk) == NOTHING) is is_begun
    assert (ENTRY in cleaner_checkpoint(host.disk)) is not is_begun


def test_a_cut_is_broken_off_at_any_operation_and_power_is_cut() -> None:
    """Removals of single segments may come undone."""
    host = cleaned_follower()
    fetch = fetch_of(host)
    host.holds_effects = True
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 1, 0, diverging_epoch=0, diverging_end_offset=1))
    host.turn()
    while not any(isinstance(effect, TruncateEffect) for effect in host.held):
        for effect in list(host.held):
            host.run_effect(effect)
        host.turn()
    (effect,) = host.held
    for operations in range(1_000):
        disk = copy.deepcopy(host.disk)
        disk.interrupt_after = operations
        try:
            execute(disk, effect)
        except MachineStopped:
            pass
        else:
            break
        for seed in range(8):
            assert has_no_gap(disk, seed), (operations, seed)
    assert operations > 10


def test_a_cut_that_is_given_up_leaves_what_was_compacted() -> None:
    host = cleaned_follower()
    fetch = fetch_of(host)
    host.holds_effects = True
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 5, 0, diverging_epoch=0, diverging_end_offset=5))
    host.turn()
    state = topic(1, 1, leader=LEADER, replicas=REPLICAS, in_sync_replicas=REPLICAS)
    host.core.on_control(7, host.command(LeaderAndIsr(False, [state])))
    host.turn()
    host.holds_effects = False
    host.run_effects()
    host.settle()
    tick(host, 1)
    assert partition_of(host).log.log_end_offset == END_OFFSET
    assert ENTRY in cleaner_checkpoint(host.disk)


def test_a_partition_that_is_deleted_is_forgotten_before_there_is_another_one() -> None:
    host = cleaned_follower()
    host.holds_effects = True
    host.core.on_control(7, host.command(StopReplica([host.stopped(delete=True)])))
    again = topic(0, 0, topic_id=bytes(15) + b"9", leader=LEADER, replicas=REPLICAS, in_sync_replicas=REPLICAS)
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [again])))
    while not host.disk.exists("/data0/orders-0"):
        host.turn()
        for effect in list(host.held):
            host.run_effect(effect)
    assert ENTRY not in cleaner_checkpoint(host.disk)


def test_a_log_in_another_directory_has_its_entry_there() -> None:
    host = cleaned_leader()
    ask(host, "/data1")
    tick(host, 1)
    tick(host, 2)
    assert host.core.partitions[0].log.directory == "/data1/orders-0"
    assert cleaner_checkpoint(host.disk) == NOTHING
    assert ENTRY in cleaner_checkpoint(host.disk, "/data1")


def test_a_log_comes_back_only_to_a_directory_that_has_forgotten_it() -> None:
    """The old entry would be believed of what the log has become since."""
    host = cleaned_leader()
    host.holds_effects = True

    def run_but_old_checkpoint() -> None:
        for _ in range(40):
            host.turn()
            for effect in [each for each in host.held if not is_forgetting(each)]:
                host.run_effect(effect)

    ask(host, "/data1")
    host.core.tick(1)
    run_but_old_checkpoint()
    assert host.core.partitions[0].log.directory == "/data1/orders-0"
    assert ENTRY in cleaner_checkpoint(host.disk)
    host.core.on_administration(3, AlterReplicaLogDirsRequest([ReplicaMove("orders", 0, "/data0")]))
    host.core.tick(2)
    run_but_old_checkpoint()
    assert host.core.partitions[0].log.directory == "/data1/orders-0", "not yet"
    host.holds_effects = False
    host.run_effects()
    tick(host, 3)
    assert host.core.partitions[0].log.directory == "/data0/orders-0"
    tick(host, 4)
    assert ENTRY in cleaner_checkpoint(host.disk)


def is_forgetting(effect: StorageEffect) -> bool:
    """Whether the effect writes the cleaner's checkpoint of the first directory."""
    return isinstance(effect, ReplaceEffect) and effect.replacement.path == "/data0/cleaner-offset-checkpoint"
