"""A compacted topic on a real cluster: old values go, a consumer from the begin sees the latest of every key."""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas_cli.local.cluster import Started
from barnabas_cli.local.services import Role
from tests.integration.retried_calls import end_offset
from tests.integration.running_cluster import RunningCluster

pytestmark = pytest.mark.integration

KEYS = 50
VALUE_BYTES = 1000
SECONDS_MAX = 60
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.01",
}


class CompactingCluster(RunningCluster):
    """Its cleaner looks for work all the time."""

    def up(self) -> Started:
        own = {"log.cleaner.backoff.ms": "200", "log.segment.delete.delay.ms": "1000"}
        self.local.services = [
            replace(service, properties=service.properties | (own if service.role == Role.LOGSTORE else {}))
            for service in self.local.services
        ]
        return super().up()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with CompactingCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield running


def new_topic(cluster: RunningCluster, **configs: str) -> str:
    topic = f"compacted-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=COMPACTED | configs)])[topic].result(timeout=SECONDS_MAX)
    return topic


def produce(cluster: RunningCluster, topic: str, records: list[tuple[str, bytes | None]], compression: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "compression.type": compression,
            "batch.num.messages": 100,
        }
    )
    errors: list[KafkaError | None] = []
    for key, value in records:
        producer.produce(topic, value, key, 0, on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    assert errors == [None] * len(records)


def consume(cluster: RunningCluster, topic: str) -> list[tuple[int, str, bytes | None]]:
    """(offset, key, value) of everything that is there."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "assigned", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[tuple[int, str, bytes | None]] = []
    # Not closed: that would wait for a group coordinator, which this test does not need.
    while True:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, "nothing came, not even the end"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            return found
        key = message.key()
        assert isinstance(key, bytes)
        value = message.value()
        assert value is None or isinstance(value, bytes)
        offset = message.offset()
        assert offset is not None
        found.append((offset, key.decode(), value))


def until_compacted(cluster: RunningCluster, topic: str, records_max: int) -> list[tuple[int, str, bytes | None]]:
    deadline = time.monotonic() + SECONDS_MAX
    while len(found := consume(cluster, topic)) > records_max:
        assert time.monotonic() < deadline, f"{len(found)} records are left"
        time.sleep(0.2)
    return found


def updates(seed: int, count: int) -> list[tuple[str, bytes | None]]:
    """Of KEYS keys, in turns; a few are deleted in the end."""
    source = random.Random(seed)
    found: list[tuple[str, bytes | None]] = [
        (f"key-{number % KEYS}", source.randbytes(VALUE_BYTES)) for number in range(count)
    ]
    return found + [(f"key-{number}", None) for number in range(3)]


def fill_active_segment(cluster: RunningCluster, topic: str) -> None:
    """So much that all before it is in closed segments."""
    produce(cluster, topic, [("active", random.Random(0).randbytes(VALUE_BYTES)) for _ in range(1100)], "none")


DEEP = [pytest.param(codec, marks=pytest.mark.deep) for codec in ("none", "zstd", "gzip", "snappy")]


@pytest.mark.parametrize("compression", ["lz4", *DEEP])
def test_the_latest_value_of_every_key_is_left(cluster: RunningCluster, compression: str) -> None:
    topic = new_topic(cluster)
    records = updates(1, 4000)
    produce(cluster, topic, records, compression)
    fill_active_segment(cluster, topic)
    # The active segment is left alone, and tombstones stay for a day.
    found = until_compacted(cluster, topic, KEYS + 1200)
    assert [offset for offset, _, _ in found] == sorted(offset for offset, _, _ in found)
    latest = {key: value for _, key, value in found if key != "active"}
    assert latest == dict(records)
    written = [*records, *[("active", None)] * 1100]
    assert all(written[offset][0] == key for offset, key, _ in found), "an offset has moved"


@pytest.mark.deep
def test_tombstones_go_when_their_time_is_over(cluster: RunningCluster) -> None:
    topic = new_topic(cluster, **{"delete.retention.ms": "0"})
    produce(cluster, topic, updates(2, 2000), "lz4")
    fill_active_segment(cluster, topic)
    deadline = time.monotonic() + SECONDS_MAX
    while "key-0" in {key for _, key, _ in consume(cluster, topic)}:
        assert time.monotonic() < deadline, "the tombstone is there still"
        # Each pass needs something dirty.
        fill_active_segment(cluster, topic)
    keys = {key for _, key, _ in consume(cluster, topic)}
    assert keys == {f"key-{number}" for number in range(3, KEYS)} | {"active"}


@pytest.mark.deep
def test_compaction_goes_on_after_the_cleaner_and_the_logstore_were_killed(cluster: RunningCluster) -> None:
    topic = new_topic(cluster)
    records = updates(3, 3000)
    produce(cluster, topic, records, "none")
    fill_active_segment(cluster, topic)
    until_compacted(cluster, topic, KEYS + 1200)
    (cleaner,) = cleaners(cluster)
    os.kill(cleaner, signal.SIGKILL)
    more = updates(4, 3000)
    produce(cluster, topic, more, "none")
    fill_active_segment(cluster, topic)
    found = until_compacted(cluster, topic, KEYS + 1200)
    assert {key: value for _, key, value in found if key != "active"} == dict(more)
    assert cleaners(cluster) != [cleaner]
    cluster.kill("logstore-0")
    cluster.up()
    # Meanwhile it may have been compacted further.
    left = consume(cluster, topic)
    assert {key: value for _, key, value in left if key != "active"} == dict(more)
    assert set(left) <= set(found)
    assert end_of(cluster, topic) == 2 * (3000 + 3 + 1100)


def end_of(cluster: RunningCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "assigned"})
    return end_offset(consumer, topic, 0)


def cleaners(cluster: RunningCluster) -> list[int]:
    """The processes that clean for the logstore."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"barnabas_logstore.cleaner" in command and parent == cluster.pids["logstore-0"]:
            found.append(int(path.name))
    return found
