"""Apache Kafka's own DumpLogSegments reads every file that a log is made of."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.integration.kafka_tools import KafkaTools
from tests.unit.logstore.storage.support import WALL_MS, append, batch, close, flush_all, settle
from tests.unit.logstore.storage.test_transactions import end, write

pytestmark = [pytest.mark.integration, pytest.mark.java]

BATCHES = 60
COMPLAINT = re.compile(r"^(Mismatches in|Found .* in|Non-consecutive|.*not valid)", re.MULTILINE)


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments of two idempotent producers under three leader epochs, shut down cleanly."""
    root = tmp_path_factory.mktemp("logs")
    disk: Disk = PosixDisk()
    directory = LogDirectory.open(
        disk,
        str(root),
        cluster_id="cluster",
        node_id=1,
        kernel_boot_id="boot",
        new_directory_id=bytes(range(16)),
        unique_name=lambda: "0" * 32,
    )
    assert isinstance(directory, LogDirectory)
    directory.load(lambda topic: TopicConfig(), 0)
    log = directory.create(("orders", 0), bytes(range(16)), TopicConfig(segment_bytes=20_000))
    assert isinstance(log, PartitionLog)
    for number in range(BATCHES):
        records = batch(
            3,
            value_bytes=200,
            timestamp_ms=WALL_MS + 10 * number,
            producer_id=7 + number % 2,
            producer_epoch=1,
            base_sequence=number // 2 * 3,
        )
        append(log, records, leader_epoch=number // 20)
        if number % 4 == 0:
            settle(disk, log)
    settle(disk, log)
    flush_all(disk, directory)
    assert directory.shut_down({("orders", 0): log.log_end_offset}, broker_epoch=5)
    return root / "orders-0"


def dump(tools: KafkaTools, files: list[Path], *options: str) -> str:
    """The output of Kafka's DumpLogSegments, which reports on standard error what it finds wrong."""
    assert files
    done = tools.run("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)), *options)
    assert done.status == 0, done.stderr
    return done.stdout + done.stderr


def test_batches_and_records_are_read_and_every_crc_is_right(kafka_tools: KafkaTools, partition: Path) -> None:
    text = dump(kafka_tools, sorted(partition.glob("*.log")), "--print-data-log")
    batches = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+) .* partitionLeaderEpoch: (\d+) ", text, re.MULTILINE)
    assert batches == [(str(3 * number), str(3 * number + 2), str(number // 20)) for number in range(BATCHES)]
    assert text.count("isvalid: true") == BATCHES
    assert text.count(f"payload: {'v' * 200}") == 3 * BATCHES


def test_indexes_agree_with_the_log(kafka_tools: KafkaTools, partition: Path) -> None:
    """The tool compares each entry with the batch that it points at, and says so where they differ."""
    indexes = sorted(partition.glob("*.index"))
    text = dump(kafka_tools, indexes + sorted(partition.glob("*.timeindex")))
    assert len(re.findall(r"^offset: \d+ position: \d+$", text, re.MULTILINE)) == 8
    assert len(re.findall(r"^timestamp: \d+ offset: \d+$", text, re.MULTILINE)) == 11
    assert COMPLAINT.search(text) is None
    sane = dump(kafka_tools, indexes[:2], "--index-sanity-check")
    assert sane.count("passed sanity check") == 2


def test_snapshots_name_both_producers(kafka_tools: KafkaTools, partition: Path) -> None:
    snapshots = sorted(partition.glob("*.snapshot"))
    text = dump(kafka_tools, snapshots)
    lines = re.findall(r"^producerId: (\d+) producerEpoch: (\d+) .* lastSequence: (\d+) lastOffset: (\d+)", text, re.M)
    assert len(lines) == 2 * len(snapshots)
    assert lines[-2:] == [("7", "1", "89", "176"), ("8", "1", "89", "179")]


def test_the_tool_would_have_complained(kafka_tools: KafkaTools, partition: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(partition, tmp_path / "orders-0")
    index = sorted(damaged.glob("*.index"))[0]
    content = bytearray(index.read_bytes())
    content[3] += 1
    index.write_bytes(content)
    assert COMPLAINT.search(dump(kafka_tools, [index])) is not None


def test_markers_and_aborted_transactions_are_read(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    disk = PosixDisk()
    (tmp_path / "data").mkdir()
    opened = open_log(disk, str(tmp_path / "data"), ("t", 0), TopicConfig(), recovery_point=0, shut_down_cleanly=False)
    log = opened.log
    write(log, 0)
    write(log, 0, producer_id=2)
    end(log, commit=False, coordinator_epoch=3)
    end(log, commit=True, producer_id=2, coordinator_epoch=4)
    write(log, 1)
    close(disk, log)
    files = sorted((tmp_path / "data").glob("*.log"))
    text = dump(kafka_tools, files, "--print-data-log")
    markers = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", text)
    assert markers == [("ABORT", "3"), ("COMMIT", "4")]
    assert text.count("isTransactional: true") == 5
    aborted = dump(kafka_tools, sorted((tmp_path / "data").glob("*.txnindex")))
    assert "version: 0 producerId: 1 firstOffset: 0 lastOffset: 2 lastStableOffset: 1" in aborted
    snapshot = dump(kafka_tools, sorted((tmp_path / "data").glob("*.snapshot")))
    producers = re.findall(r"producerId: (\d+).* coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+) ", snapshot)
    assert producers == [("1", "3", "OptionalLong[4]"), ("2", "4", "OptionalLong.empty")]


@pytest.mark.deep
def test_a_tool_that_is_interrupted_does_not_answer_for_the_next_one(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found beside other load: a test's time ended while it read an answer, and each later test read the one before."""

    def interrupted() -> str:
        raise KeyboardInterrupt

    with KafkaTools() as tools:
        tools.run("kafka.tools.StorageTool", "random-uuid")
        assert tools._jvm is not None
        monkeypatch.setattr(tools._jvm.stdout, "readline", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tools.run("kafka.tools.StorageTool", "random-uuid")
        assert "isvalid: true" in dump(tools, sorted(partition.glob("*.log")))
