"""What an inspection finds is what a start would find, and it changes nothing."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from barnabas_logstore.core.storage.directories.directory_format import FORMAT, FORMAT_FILE
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal
from barnabas_logstore.core.storage.directories.directory_inspection import InspectedDirectory, inspect_directory
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.recovery.log_inspection import LogFound, inspect_log
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, WALL_MS, append, batch, close, new_log, reopen, settle
from tests.unit.logstore.storage.test_log_directory import PATH, TOPIC_ID, opened, shut_down, with_partition

SMALL_SEGMENTS = TopicConfig(segment_bytes=4 * len(batch()), index_interval_bytes=0)


def content(disk: DiskModel, path: str) -> dict[str, bytes]:
    """Of every file below a path."""
    files: dict[str, bytes] = {}
    for entry in disk.list(path):
        below = f"{path}/{entry.name}"
        files |= content(disk, below) if entry.is_directory else {below: disk.read_file(below)}
    return files


def inspected(disk: DiskModel, **state: int) -> LogFound:
    """Without changing anything."""
    before = content(disk, DIRECTORY)
    found = inspect_log(
        disk,
        DIRECTORY,
        recovery_point=state.get("recovery_point", 0),
        shut_down_cleanly=bool(state.get("clean", 0)),
        log_start_offset=state.get("log_start", 0),
    )
    assert content(disk, DIRECTORY) == before
    return found


def filled(disk: DiskModel, batches: int) -> PartitionLog:
    log = new_log(disk, SMALL_SEGMENTS)
    for number in range(batches):
        append(
            log,
            batch(timestamp_ms=WALL_MS + number, producer_id=7 + number, producer_epoch=0, base_sequence=0),
            leader_epoch=number // 3,
        )
    settle(disk, log)
    return log


@pytest.mark.parametrize("batches", [0, 1, 4, 10])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_ends_where_it_ends(batches: int, is_clean: bool) -> None:
    disk = DiskModel()
    log = filled(disk, batches)
    if is_clean:
        close(disk, log)
    found = inspected(disk, clean=is_clean, recovery_point=log.recovery_point if is_clean else 0)
    latest_epoch = (batches - 1) // 3 if batches else -1
    assert found == LogFound(0, batches, latest_epoch, 6 + batches if batches else -1)


def test_without_its_epochs_file_a_log_is_read_as_a_whole() -> None:
    disk = DiskModel()
    close(disk, filled(disk, 10))
    disk.remove(f"{DIRECTORY}/{LEADER_EPOCH_CHECKPOINT}")
    assert inspected(disk, clean=True, recovery_point=10) == LogFound(0, 10, 3, 16)


def test_an_epoch_that_left_no_record_does_not_count() -> None:
    """As after a start: a leader under it had nothing that others lack."""
    disk = DiskModel()
    log = filled(disk, 10)
    log.leader_epochs.assign(9, log.next_offset)
    close(disk, log)
    assert inspected(disk, clean=True, recovery_point=10).latest_epoch == 3


@given(
    batches=st.integers(0, 14),
    seed=st.integers(0, 10_000),
    recovers_from=st.integers(0, 14),
    log_start=st.integers(0, 6),
    damage=st.one_of(st.none(), st.tuples(st.integers(0, 13), st.integers(0, len(batch()) - 1))),
)
def test_after_a_crash_it_is_what_recovery_finds(
    batches: int, seed: int, recovers_from: int, log_start: int, damage: tuple[int, int] | None
) -> None:
    disk = DiskModel()
    log = filled(disk, batches)
    recovery_point = min(recovers_from, log.recovery_point)
    disk.lose_power(Random(seed))
    if not disk.exists(DIRECTORY):
        return
    if damage is not None:
        position = damage[0] * len(batch()) + damage[1]
        names = [entry.name for entry in disk.list(DIRECTORY) if entry.name.endswith(".log") and entry.byte_count]
        if names:
            file = disk.open(f"{DIRECTORY}/{names[position % len(names)]}")
            at = position % disk.size(file)
            disk.write_at(file, at, (bytes([disk.read_at(file, at, 1)[0] ^ 0x10]),))
    found = inspected(disk, recovery_point=recovery_point, log_start=log_start)
    recovered = reopen(disk, SMALL_SEGMENTS, recovery_point=recovery_point, log_start_offset=log_start).log
    if recovered.log_end_offset > log_start:
        assert found.log_end_offset == recovered.log_end_offset
        assert found.latest_epoch == recovered.leader_epochs.latest
    else:
        assert found.log_end_offset <= max(recovered.log_end_offset, log_start)


def an_inspection(disk: DiskModel) -> InspectedDirectory:
    before = content(disk, PATH)
    found = inspect_directory(disk, PATH)
    assert isinstance(found, InspectedDirectory), found
    assert content(disk, PATH) == before
    return found


def test_a_directory_tells_of_its_partitions_and_of_what_was_set_aside() -> None:
    disk = DiskModel()
    directory, _ = with_partition(disk)
    aside = directory.create(("gone", 0), TOPIC_ID, TopicConfig())
    assert isinstance(aside, PartitionLog)
    settle(disk, aside)
    assert directory.set_aside(("gone", 0)) is None
    shut_down(disk, directory)
    found = an_inspection(disk)
    assert (found.identity.cluster_id, found.identity.node_id) == ("cluster-a", 1)
    (partition,) = found.found.partitions
    assert (partition.topic, partition.partition, partition.topic_id) == ("orders", 0, TOPIC_ID.hex())
    assert (partition.log_end_offset, partition.latest_epoch, partition.high_watermark) == (3, 2, 3)
    assert found.found.shut_down_cleanly
    assert [name.startswith("gone-0.") for name in found.found.strays] == [True]


def test_a_directory_without_an_owner_is_refused() -> None:
    disk = DiskModel()
    disk.make_directory(PATH)
    refusal = inspect_directory(disk, PATH)
    assert isinstance(refusal, DirectoryRefusal)
    assert "meta.properties" in refusal.message


# --- the format ---


def test_a_directory_says_in_which_format_it_is() -> None:
    disk = DiskModel()
    opened(disk)
    lines = disk.read_file(f"{PATH}/{FORMAT_FILE}").decode().splitlines()
    assert lines[0] == f"format={FORMAT}"
    assert [line.partition("=")[0] for line in lines] == ["format", "readers.min", "written.by"]


def test_a_directory_of_the_first_version_is_brought_up_to_date_with_its_records() -> None:
    disk = DiskModel()
    directory, _ = with_partition(disk)
    shut_down(disk, directory)
    disk.remove(f"{PATH}/{FORMAT_FILE}")
    again = opened(disk)
    assert [each.opened.log.log_end_offset for each in again.load(lambda topic: TopicConfig(), now_ms=0)] == [3]
    assert disk.exists(f"{PATH}/{FORMAT_FILE}")


def attempt_with(content: bytes) -> LogDirectory | DirectoryRefusal:
    disk = DiskModel()
    opened(disk)
    disk.replace_file(f"{PATH}/{FORMAT_FILE}", content)
    return LogDirectory.open(
        disk,
        PATH,
        cluster_id="cluster-a",
        node_id=1,
        kernel_boot_id="boot-1",
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )


def test_a_newer_directory_is_refused_with_the_version_to_run() -> None:
    refusal = attempt_with(f"format={FORMAT + 2}\nreaders.min={FORMAT + 1}\nwritten.by=0.9.0\n".encode())
    assert isinstance(refusal, DirectoryRefusal)
    assert refusal.message.startswith(f"{PATH} was written by Barnabas 0.9.0")
    assert refusal.message.endswith("run 0.9.0 or newer")


def test_a_newer_directory_that_lets_us_is_used_and_stays_newer() -> None:
    content = f"format={FORMAT + 2}\nreaders.min={FORMAT}\nwritten.by=0.9.0\n".encode()
    directory = attempt_with(content)
    assert isinstance(directory, LogDirectory)
    assert directory._disk.read_file(f"{PATH}/{FORMAT_FILE}") == content


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"format=one\nreaders.min=0\n", b"format=1\n"])
def test_an_unreadable_marker_is_refused(content: bytes) -> None:
    refusal = attempt_with(content)
    assert isinstance(refusal, DirectoryRefusal)
    assert FORMAT_FILE in refusal.message


def test_a_newer_directory_is_not_inspected_either() -> None:
    disk = DiskModel()
    opened(disk)
    disk.replace_file(f"{PATH}/{FORMAT_FILE}", f"format=9\nreaders.min={FORMAT + 1}\nwritten.by=0.9.0\n".encode())
    assert isinstance(inspect_directory(disk, PATH), DirectoryRefusal)


def test_the_register_of_topics_is_read_back() -> None:
    disk = DiskModel()
    directory, _ = with_partition(disk)
    shut_down(disk, directory)
    assert an_inspection(disk).found.register is None
    disk.replace_file(f"{PATH}/topic-register", b'{"controller_epoch": 3, "revision": 9, "topics": [], "later": 1}')
    register = an_inspection(disk).found.register
    assert register is not None
    assert (register.controller_epoch, register.revision) == (3, 9)
    disk.replace_file(f"{PATH}/topic-register", b"\xff{")
    assert an_inspection(disk).found.register is None


def test_a_directory_of_a_killed_logstore_is_reported_as_it_is() -> None:
    disk = DiskModel()
    _, log = with_partition(disk)
    append(log, batch(2), leader_epoch=3)
    settle(disk, log)
    found = an_inspection(disk)
    assert found.found.partitions[0].log_end_offset == 5
    assert not found.found.shut_down_cleanly
