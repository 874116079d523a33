"""Apache Kafka's own DumpLogSegments reads a log that was compacted here, record by record, and its indexes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk
from barnabas.wire.record_batch import Compression, Record, build_batch
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.integration.kafka_tools import KafkaTools
from tests.integration.test_dump_log_segments import COMPLAINT, dump
from tests.unit.logstore.compaction.support import batches_of, clean, compress
from tests.unit.logstore.storage.support import WALL_MS, append, settle

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.deep]

KEYS = 500
BATCHES = 200
CODECS = list(Compression)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PartitionLog, Disk]:
    """Batches of all codecs and two producers, with tombstones; cleaned twice, so that some batches are met again."""
    root = tmp_path_factory.mktemp("logs")
    disk = PosixDisk()
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
    config = replace(TopicConfig(), cleanup_policy="compact", segment_bytes=20_000, index_interval_bytes=1_000)
    log = directory.create(("orders", 0), bytes(range(16)), config)
    assert isinstance(log, PartitionLog)
    random = Random(1)
    for number in range(BATCHES):
        records = [
            Record(
                b"key-%d" % random.randrange(KEYS),
                None if random.random() < 0.1 else random.randbytes(60).hex().encode(),
                WALL_MS + 10 * number + index,
            )
            for index in range(10)
        ]
        batch = build_batch(records, producer_id=7 + number % 2, producer_epoch=1, base_sequence=number // 2 * 10)
        append(log, compress(batch, CODECS[number % len(CODECS)]))
        if number == BATCHES // 2:
            settle(disk, log)
            clean(disk, log)
    settle(disk, log)
    clean(disk, log)
    return root / "orders-0", log, disk


def test_every_batch_and_record_is_read(kafka_tools: KafkaTools, compacted: tuple[Path, PartitionLog, Disk]) -> None:
    partition, log, disk = compacted
    text = dump(kafka_tools, sorted(partition.glob("*.log")), "--deep-iteration", "--print-data-log")
    # That offsets are not consecutive it says of every compacted log, Kafka's own too.
    assert {match[1] for match in COMPLAINT.finditer(text)} == {"Non-consecutive"}
    ours = batches_of(disk, log)
    theirs = re.findall(
        r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* "
        r"deleteHorizonMs: OptionalLong(?:\.empty|\[(\d+)\]) .* isvalid: true",
        text,
        re.MULTILINE,
    )
    assert [(int(base), int(last), int(count)) for base, last, count, _ in theirs] == [
        (header.base_offset, header.last_offset, header.records_count) for header, _ in ours
    ]
    horizons = {header.base_offset: header.base_timestamp for header, _ in ours if header.has_delete_horizon}
    assert horizons
    assert {int(base): int(horizon_ms) for base, _, _, horizon_ms in theirs if horizon_ms} == horizons
    records = re.findall(r"^\| offset: (\d+) CreateTime: (\d+) .* key: (\S+)( payload: (\S+))?", text, re.MULTILINE)
    assert [(int(offset), int(time), key, value or None) for offset, time, key, _, value in records] == [
        (record.offset, record.timestamp_ms, (record.key or b"").decode(), record.value and record.value.decode())
        for _, found in ours
        for record in found
    ]


def test_indexes_agree_with_the_log(kafka_tools: KafkaTools, compacted: tuple[Path, PartitionLog, Disk]) -> None:
    partition, log, _ = compacted
    closed = [segment.base_offset for segment in log.segments.all()[:-1]]
    indexes = [partition / f"{offset:020d}{suffix}" for offset in closed for suffix in (".index", ".timeindex")]
    text = dump(kafka_tools, indexes)
    assert COMPLAINT.search(text) is None
    assert re.search(r"^offset: \d+ position: \d+$", text, re.MULTILINE)
    sane = dump(kafka_tools, [path for path in indexes if path.suffix == ".index"], "--index-sanity-check")
    assert sane.count("passed sanity check") + sane.count("is empty") == len(closed)
    assert sane.count("passed sanity check") >= 3
