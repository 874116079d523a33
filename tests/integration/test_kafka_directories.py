"""Log directories change hands: Apache Kafka 4.4 starts on what Barnabas wrote, Barnabas on what Kafka wrote.

Nothing in a directory is changed on the way: `meta.properties`, checkpoints, the clean-shutdown marker and all files of
the partitions are used as they are. Kafka's own cluster metadata, which Barnabas has in etcd, is made beside it, with
the same topic ids (`kafka_broker`).
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.cluster.topic_config import TopicConfig
from barnabas_logstore.core.storage import checkpoints
from barnabas_logstore.core.storage.checkpoints import DirectoryIdentity
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.leader_epochs import LeaderEpochs
from barnabas_logstore.core.storage.log.state.producer_state import parse_snapshot
from barnabas_logstore.core.storage.segment.scan import scan_batches
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.integration import test_dump_log_segments
from tests.integration.etcd_process import needs_etcd
from tests.integration.kafka_broker import KafkaBroker, OldPartition
from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.java,
    needs_etcd,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.deep,
]

TOPIC = "orders"
PARTITIONS = 2
SEGMENT_BYTES = 1 << 20
KAFKA_SETTINGS = {"log_segment_bytes": str(SEGMENT_BYTES), "log_retention_ms": "-1"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_CODEC = 300
WALL_MS = 1_700_000_000_000
_SECONDS_MAX = 60
# What Kafka's storage says when it does not believe what it finds.
DISTRUST = re.compile(r"(?i)recovering|corrupt|rebuilt|truncat|stray|^WARN|^ERROR")
TRUST = re.compile(r"Skipping recovery of \d+ logs")
PRODUCERS_FROM = re.compile(r"partition=(\S+),.* rebuilding producer state from offset (\d+)")

Records = list[tuple[int, int, int, Any, Any, Any]]
"""Partition, offset, timestamp, key, value, headers."""


@dataclass(slots=True, frozen=True)
class Copy:
    """A log directory as Barnabas left it, and what its clients could read of it."""

    path: Path
    identity: DirectoryIdentity
    partitions: list[OldPartition]
    records: Records


def create_topic(bootstrap: str) -> None:
    config = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
    topic = NewTopic(TOPIC, PARTITIONS, 1, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[TOPIC].result(timeout=_SECONDS_MAX)


def produce(bootstrap: str, seed: int, **settings: Any) -> None:
    """Every codec, keys and values that are null, headers, times that go back, and values large enough for segments."""
    for number, codec in enumerate(CODECS):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": number % 2 == 0,
                "linger.ms": 5,
                **settings,
            }
        )
        noise = Random(100 * seed + number)
        for index in range(RECORDS_PER_CODEC):
            producer.produce(
                TOPIC,
                None if index % 7 == 3 else noise.randbytes(10 * index) + bytes(index),
                None if index % 5 == 4 else b"key-%d" % index,
                partition=index % PARTITIONS,
                timestamp=WALL_MS + 1000 * index - (index % 3) * 5000,
                headers=[("h", b"%d" % index), ("empty", b"")] if index % 4 == 0 else None,
                on_delivery=_delivered,
            )
        assert producer.flush(_SECONDS_MAX) == 0


def _delivered(error: Any, _message: Any) -> None:
    assert error is None, error


def consume(bootstrap: str) -> Records:
    """Everything, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    records: Records = []
    ended = 0
    deadline = time.monotonic() + _SECONDS_MAX
    while ended < PARTITIONS:
        assert time.monotonic() < deadline, f"{len(records)} records, then nothing"
        for message in consumer.consume(500, timeout=0.2):
            if message.error() is not None:
                ended += 1
                continue
            kind, timestamp_ms = message.timestamp()
            assert kind == TIMESTAMP_CREATE_TIME
            place = (int(message.partition() or 0), int(message.offset() or 0), timestamp_ms)
            records.append((*place, message.key(), message.value(), message.headers()))
    consumer.close()
    return sorted(records, key=lambda record: record[:2])


def assert_same(found: Records, expected: Records) -> None:
    """Without the whole of both in what a failure says."""
    different = [(ours[:3], theirs[:3]) for ours, theirs in zip(found, expected, strict=False) if ours != theirs]
    assert (len(found), different[:3]) == (len(expected), [])


def copy_of(tools: KafkaTools, cluster: RunningCluster, target: Path, records: Records) -> Copy:
    path = shutil.copytree(cluster.directory.logstore_path(0), target)
    identity = checkpoints.parse_meta_properties((path / "meta.properties").read_bytes())
    assert identity is not None
    partitions = []
    for partition in range(PARTITIONS):
        directory = path / f"{TOPIC}-{partition}"
        topic_id = checkpoints.parse_partition_metadata((directory / "partition.metadata").read_bytes())
        assert topic_id is not None
        # A killed process leaves an older checkpoint: the epoch is then as Kafka will find it in the batches.
        partitions.append(OldPartition(TOPIC, topic_id, partition, latest_epoch(tools, directory)))
    return Copy(path, identity, partitions, records)


def latest_epoch(tools: KafkaTools, directory: Path) -> int:
    """By the last batch of the log."""
    text = test_dump_log_segments.dump(tools, sorted(directory.glob("*.log")))
    return int(re.findall(r"partitionLeaderEpoch: (\d+)", text)[-1])


@pytest.fixture(scope="module")
def written(
    kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningCluster, Copy, Copy]]:
    """A cluster that runs again, and two copies of its log directory: shut down cleanly, and killed."""
    root = tmp_path_factory.mktemp("directories")
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as cluster:
        create_topic(cluster.bootstrap)
        produce(cluster.bootstrap, 1)
        cluster.stop("logstore-0")
        cluster.up()
        produce(cluster.bootstrap, 2)
        records = consume(cluster.bootstrap)
        cluster.stop("logstore-0")
        clean = copy_of(kafka_tools, cluster, root / "clean", records)
        cluster.up()
        produce(cluster.bootstrap, 3)
        records = consume(cluster.bootstrap)
        cluster.kill("logstore-0")
        killed = copy_of(kafka_tools, cluster, root / "killed", records)
        cluster.start("logstore-0")
        yield cluster, clean, killed


@pytest.fixture(scope="module")
def clean(written: tuple[RunningCluster, Copy, Copy]) -> Copy:
    return written[1]


@pytest.fixture(scope="module")
def killed(written: tuple[RunningCluster, Copy, Copy]) -> Copy:
    return written[2]


def test_dump_log_segments_accepts_every_file(kafka_tools: KafkaTools, clean: Copy) -> None:
    for partition in clean.partitions:
        directory = clean.path / f"{TOPIC}-{partition.partition}"
        logs = sorted(directory.glob("*.log"))
        assert len(logs) > 1
        offsets = []
        for log in logs:
            text = dump(kafka_tools, [log], "--deep-iteration", "--skip-record-metadata")
            assert text.count("isvalid: true") == text.count("baseOffset: ") > 0
            text = dump(kafka_tools, [log], "--deep-iteration")
            offsets += [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.M)]
        assert offsets == [record[1] for record in clean.records if record[0] == partition.partition]
        dump(kafka_tools, [*directory.glob("*.index"), *directory.glob("*.timeindex")])
        dump(kafka_tools, sorted(directory.glob("*.index")), "--verify-index-only")
        assert "passed sanity check" in dump(kafka_tools, sorted(directory.glob("*.index")), "--index-sanity-check")
        assert "producerId: " in dump(kafka_tools, sorted(directory.glob("*.snapshot")))


def dump(tools: KafkaTools, files: list[Path], *options: str) -> str:
    """The output of DumpLogSegments, which complains in words."""
    text = test_dump_log_segments.dump(tools, files, *options)
    # Of the first offset of any log that does not begin at 0 the tool says that it follows -1.
    complaint = re.search(
        r"^(Mismatches in|Found .* in|Non-consecutive.*\n(?! *-1 is)|.*not valid).*", text, re.MULTILINE
    )
    assert complaint is None, complaint[0][:300]
    return text


def on_storage(said: list[str]) -> list[str]:
    """What Kafka's storage says of our partitions; its metadata log and its own topics begin with nothing."""
    loggers = ("(org.apache.kafka.storage.internals", "(kafka.log")
    return [line for line in said if f"{TOPIC}-" in line and any(logger in line for logger in loggers)]


def test_kafka_believes_a_directory_that_was_shut_down_cleanly(
    kafka_tools: KafkaTools, clean: Copy, tmp_path: Path
) -> None:
    path = shutil.copytree(clean.path, tmp_path / "copy")
    files = {file: file.read_bytes() for file in path.glob(f"{TOPIC}-*/*.*index")}
    assert len(files) > 2 * PARTITIONS
    broker = KafkaBroker(kafka_tools, tmp_path / "kafka", path, clean.identity, clean.partitions, **KAFKA_SETTINGS)
    try:
        broker.start()
        assert_same(consume(broker.bootstrap), clean.records)
    finally:
        broker.stop()
    said = on_storage(broker.said())
    assert [line for line in said if DISTRUST.search(line)] == []
    assert [line for line in broker.said() if TRUST.search(line)], "the clean-shutdown marker was not honoured"
    # Snapshots of producers are taken as they are: nothing of the log is read again for them.
    rebuilt_from = {match[1]: match[2] for line in said if (match := PRODUCERS_FROM.search(line))}
    ends = {f"{TOPIC}-{partition}": str(end) for partition, end in ends_of(clean.records).items()}
    assert rebuilt_from == ends
    # Indexes of closed segments are as they were; that of the active one was opened to grow and trimmed again.
    assert {file: file.read_bytes() for file in files} == files


def test_kafka_recovers_a_directory_whose_logstore_was_killed(
    kafka_tools: KafkaTools, killed: Copy, tmp_path: Path
) -> None:
    path = shutil.copytree(killed.path, tmp_path / "copy")
    broker = KafkaBroker(kafka_tools, tmp_path / "kafka", path, killed.identity, killed.partitions, **KAFKA_SETTINGS)
    try:
        broker.start()
        assert_same(consume(broker.bootstrap), killed.records)
    finally:
        broker.stop()
    said = on_storage(broker.said())
    assert [line for line in broker.said() if TRUST.search(line)] == []
    assert [line for line in said if "Recovering unflushed segment" in line]
    assert [line for line in said if re.search(r"(?i)corrupt|truncat|^WARN|^ERROR", line)] == []


def ends_of(records: Records) -> dict[int, int]:
    """The offset after the last record of each partition."""
    return {record[0]: record[1] + 1 for record in records}


# --- and back ---


@pytest.fixture(scope="module", params=["stopped", "killed"])
def kafkas(
    request: pytest.FixtureRequest,
    kafka_tools: KafkaTools,
    written: tuple[RunningCluster, Copy, Copy],
    tmp_path_factory: pytest.TempPathFactory,
) -> Copy:
    """A directory of Barnabas's that Kafka went on with, and left, with transactions and all codecs in it."""
    cluster, _, _ = written
    root = tmp_path_factory.mktemp("kafkas")
    cluster.up()
    before = consume(cluster.bootstrap)
    cluster.stop("logstore-0")
    old = copy_of(kafka_tools, cluster, root / "old", before)
    cluster.up()
    broker = KafkaBroker(kafka_tools, root / "kafka", old.path, old.identity, old.partitions, **KAFKA_SETTINGS)
    try:
        broker.start()
        produce(broker.bootstrap, 4)
        for commits in (True, False, True):
            produce_transaction(broker.bootstrap, commits)
        produce(broker.bootstrap, 5)
        records = consume(broker.bootstrap)
        assert len(records) > len(before)
        if request.param == "killed":
            broker.kill()
    finally:
        broker.stop()
    return Copy(old.path, old.identity, old.partitions, records)


def produce_transaction(bootstrap: str, commits: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "compression.type": "lz4"})
    producer.init_transactions(_SECONDS_MAX)
    producer.begin_transaction()
    for index in range(20):
        producer.produce(TOPIC, b"in a transaction", partition=index % PARTITIONS, timestamp=WALL_MS)
    if commits:
        producer.commit_transaction(_SECONDS_MAX)
    else:
        producer.flush(_SECONDS_MAX)
        producer.abort_transaction(_SECONDS_MAX)


def load(path: Path, identity: DirectoryIdentity) -> tuple[LogDirectory, list[OpenedPartition]]:
    directory = opened(path, identity.cluster_id, identity.node_id)
    assert isinstance(directory, LogDirectory)
    assert directory.identity == identity
    return directory, directory.load(lambda topic: TopicConfig(), 0)


def opened(path: Path, cluster_id: str, node_id: int) -> LogDirectory | DirectoryRefusal:
    return LogDirectory.open(
        PosixDisk(),
        str(path),
        cluster_id=cluster_id,
        node_id=node_id,
        kernel_boot_id="boot",
        new_directory_id=bytes(16),
        unique_name=lambda: "0" * 32,
    )


def test_storage_opens_kafkas_files(kafkas: Copy, tmp_path: Path) -> None:
    path = shutil.copytree(kafkas.path, tmp_path / "copy")
    transaction_indexes = {file: file.read_bytes() for file in path.glob(f"{TOPIC}-*/*.txnindex")}
    directory, found = load(path, kafkas.identity)
    ours = [each for each in found if each.topic_partition[0] == TOPIC]
    assert [each.topic_id for each in ours] == [each.topic_id for each in kafkas.partitions]
    assert sum(each.opened.dropped_bytes for each in found) == 0
    assert directory.was_shut_down_cleanly == all(each.opened.scanned_bytes == 0 for each in found)
    for each in ours:
        log = each.opened.log
        # Markers of transactions have offsets too, and are for no consumer: the log may end behind the last record.
        assert log.log_end_offset >= ends_of(kafkas.records)[each.topic_partition[1]]
        assert len(log.segments) > 1
        partition = path / f"{TOPIC}-{each.topic_partition[1]}"
        epochs = LeaderEpochs.parse((partition / "leader-epoch-checkpoint").read_bytes())
        assert epochs is not None
        assert log.leader_epochs.entries() == epochs.entries()
        check_indexes(log)
        check_transactions(log)
    assert {file: file.read_bytes() for file in transaction_indexes} == transaction_indexes
    for file in path.glob(f"{TOPIC}-*/*.snapshot"):
        assert parse_snapshot(file.read_bytes()) is not None


def check_transactions(log: PartitionLog) -> None:
    """None is open, and each aborted one, which is named with its records, ends with a marker."""
    transactions = log.producers.transactions
    assert not transactions.open
    assert transactions.last_stable_offset(log.log_end_offset) == log.log_end_offset
    headers = [
        header
        for segment in log.segments.all()
        for _, header in scan_batches(PosixDisk(), segment.file, 0, segment.byte_count)
    ]
    aborted = [each for segment in log.segments.all() for each in segment.aborted.ending_from(0)]
    assert aborted
    for each in aborted:
        own = [header for header in headers if each.first_offset <= header.base_offset <= each.last_offset]
        kinds = [header.is_control for header in own if header.producer_id == each.producer_id]
        assert kinds == [False] * (len(kinds) - 1) + [True]
        assert len(kinds) > 1


def check_indexes(log: PartitionLog) -> None:
    """Each entry names a batch that begins where it says, and the last offset of it."""
    disk = PosixDisk()
    for segment in log.segments.all():
        last_offsets = {
            position: header.last_offset
            for position, header in scan_batches(disk, segment.file, 0, segment.byte_count, check_crc=True)
        }
        entries = [segment.offset_index.entry(number) for number in range(len(segment.offset_index))]
        assert all(last_offsets[position] == offset for offset, position in entries)
        assert segment.time_index.last()[0] > 0


def test_barnabas_goes_on_with_a_directory_that_kafka_wrote(
    kafkas: Copy, written: tuple[RunningCluster, Copy, Copy]
) -> None:
    cluster, _, _ = written
    cluster.stop("logstore-0")
    path = cluster.directory.logstore_path(0)
    path.rename(path.with_name(f"{path.name}-{time.monotonic_ns()}"))
    shutil.copytree(kafkas.path, path)
    cluster.up()
    assert_same(consume(cluster.bootstrap), kafkas.records)
    produce(cluster.bootstrap, 6)
    after = consume(cluster.bootstrap)
    assert len(after) == len(kafkas.records) + len(CODECS) * RECORDS_PER_CODEC
    # Topics that only Kafka's metadata knows are kept for the operator, out of the way; of this name there is one here.
    theirs = {topic_id_line(each) for each in offsets_of(kafkas.path)}
    assert theirs
    assert theirs.isdisjoint(map(topic_id_line, offsets_of(path)))
    assert theirs <= {topic_id_line(stray) for stray in path.glob("__consumer_offsets-*-stray")}


def offsets_of(directory: Path) -> list[Path]:
    """Where offsets of groups are kept; what is out of the way is not among it."""
    return [each for each in directory.glob("__consumer_offsets-*") if each.name.rpartition("-")[2].isdigit()]


def topic_id_line(partition: Path) -> str:
    """Of its `partition.metadata`."""
    (line,) = (line for line in (partition / "partition.metadata").read_text().splitlines() if "topic_id" in line)
    return line


def test_partitions_of_a_kafka_cluster_are_adopted(
    kafka_tools: KafkaTools, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The steps of docs/operate/kafka-directories.md: a topic of the same name, and Kafka's files under its id."""
    theirs = DirectoryIdentity("A" * 21 + "Q", 0, bytes(16))
    broker = KafkaBroker(kafka_tools, tmp_path / "kafka", tmp_path / "theirs", theirs, [], **KAFKA_SETTINGS)
    try:
        broker.start()
        create_topic(broker.bootstrap)
        produce(broker.bootstrap, 7)
        produce_transaction(broker.bootstrap, commits=True)
        records = consume(broker.bootstrap)
    finally:
        broker.stop()
    with RunningCluster(tmp_path_factory.mktemp("adopting"), 1) as cluster:
        create_topic(cluster.bootstrap)
        cluster.stop("logstore-0")
        ours = cluster.directory.logstore_path(0)
        for partition in range(PARTITIONS):
            directory = ours / f"{TOPIC}-{partition}"
            topic_id = (directory / "partition.metadata").read_bytes()
            shutil.rmtree(directory)
            shutil.copytree(tmp_path / "theirs" / f"{TOPIC}-{partition}", directory)
            (directory / "partition.metadata").write_bytes(topic_id)
        (ours / ".kafka_cleanshutdown").unlink()
        cluster.up()
        assert_same(consume(cluster.bootstrap), records)
        produce(cluster.bootstrap, 8)
        assert len(consume(cluster.bootstrap)) == len(records) + len(CODECS) * RECORDS_PER_CODEC


# --- refusals ---


def test_a_directory_of_another_cluster_or_node_is_refused_in_one_line(clean: Copy, tmp_path: Path) -> None:
    path = shutil.copytree(clean.path, tmp_path / "copy")
    identity = clean.identity
    refusal = opened(path, "another", identity.node_id)
    assert refusal == DirectoryRefusal(f"{path} belongs to cluster {identity.cluster_id}, not to another")
    refusal = opened(path, identity.cluster_id, 77)
    assert refusal == DirectoryRefusal(f"{path} belongs to node {identity.node_id}, not to node 77")
    assert opened(path, identity.cluster_id, identity.node_id) is not None


def test_kafka_refuses_a_directory_of_another_cluster_too(kafka_tools: KafkaTools, clean: Copy, tmp_path: Path) -> None:
    path = shutil.copytree(clean.path, tmp_path / "copy")
    other = DirectoryIdentity("A" * 22, clean.identity.node_id, clean.identity.directory_id)
    with pytest.raises(AssertionError, match="cluster"):
        KafkaBroker(kafka_tools, tmp_path / "kafka", path, other, clean.partitions).start()
