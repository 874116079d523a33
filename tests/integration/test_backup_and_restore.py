"""etcd is lost: the cluster comes back of a back-up, or of the disks alone, with everything that was acknowledged."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from barnabas.cluster.cluster_version import FORMAT, READERS_MIN, VersionRecord
from barnabas.cluster.keys import Keys, encode_record
from barnabas.ports.etcd import Put, Txn
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from tests.integration.etcd_process import EtcdProcess, needs_etcd
from tests.integration.retried_calls import committed_offsets, create_topic, retried
from tests.integration.running_cluster import ROOT, RunningCluster

pytestmark = [pytest.mark.integration, needs_etcd, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.deep]

LOGSTORES = 3
PARTITIONS = 3
GROUP = "readers"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningCluster]:
    """A cluster for one test, which breaks it."""
    with RunningCluster(tmp_path / "cluster", LOGSTORES) as cluster:
        yield cluster


def create(cluster: RunningCluster, topic: str, **configs: str) -> None:
    new = NewTopic(topic, PARTITIONS, 3, config={key.replace("_", "."): value for key, value in configs.items()})
    create_topic(cluster.bootstrap, new)


def produce(cluster: RunningCluster, topic: str, values: range) -> None:
    """Acknowledged, all of them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    failed: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    for value in values:
        producer.produce(topic, str(value), str(value), partition=value % PARTITIONS, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert not failed


def read(cluster: RunningCluster, topic: str, count: int) -> list[list[int]]:
    """The first `count` records, by partition in their order."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "all", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for message in consumer.consume(count, timeout=60):
        assert message.error() is None, message.error()
        found[message.partition()].append(int(message.value()))
    consumer.close()
    return found


def in_order(count: int) -> list[list[int]]:
    return [list(range(partition, count, PARTITIONS)) for partition in range(PARTITIONS)]


def commit(cluster: RunningCluster, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    retried(lambda: consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False))
    consumer.close()


def committed(cluster: RunningCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    try:
        (found,) = committed_offsets(consumer, topic, 1)
    finally:
        consumer.close()
    return found


def lose_etcd(cluster: RunningCluster) -> None:
    shutil.rmtree(cluster.directory.etcd_path)


def await_registers(cluster: RunningCluster, known: str, deleted: str) -> None:
    """The logstores note some seconds after a change what topics there are."""
    paths = [cluster.directory.logstore_path(logstore) / "topic-register" for logstore in range(LOGSTORES)]
    deadline_ms = monotonic_ms() + 60_000
    while not all(f'"{known}"' in text and f'"{deleted}"' not in text for text in map(_text_of, paths)):
        assert monotonic_ms() < deadline_ms, f"the registers don't tell of {known} and {deleted} what is so"
        time.sleep(0.2)


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def epochs(cluster: RunningCluster, topic: str) -> list[int]:
    lines = cluster.cli("topics", "describe", topic).stdout.splitlines()
    return [int(line.split()[2]) for line in lines[-PARTITIONS:]]


def test_everything_acknowledged_since_the_back_up_is_there_after_its_restore(
    running: RunningCluster, tmp_path: Path
) -> None:
    create(running, "orders", min_insync_replicas="2", retention_ms="123456789")
    create(running, "forgotten")
    produce(running, "orders", range(300))
    commit(running, "orders", 40)
    saved = tmp_path / "etcd.backup"
    done = running.cli("backup", str(saved))
    assert done.returncode == 0, done.stderr
    # What the back-up does not know: other leaders and epochs, more records, offsets and topics, one topic less.
    running.kill("logstore-0")
    produce(running, "orders", range(300, 600))
    running.up()
    create(running, "later", cleanup_policy="compact")
    produce(running, "later", range(90))
    commit(running, "orders", 70)
    assert running.cli("topics", "delete", "forgotten").returncode == 0
    await_registers(running, known="later", deleted="forgotten")
    before = epochs(running, "orders")

    refused = running.cli("restore", str(saved))
    assert refused.returncode == 1
    assert "in use: stop its logstore first" in refused.stderr
    for logstore in range(LOGSTORES):
        running.kill(f"logstore-{logstore}")
    running.down()
    lose_etcd(running)
    done = running.cli("restore", str(saved))
    assert done.returncode == 0, done.stdout + done.stderr
    running.up()

    assert read(running, "orders", 600) == in_order(600)
    assert read(running, "later", 90) == in_order(90)
    assert committed(running, "orders") == 70
    assert "retention.ms=123456789" in running.cli("topics", "describe", "orders").stdout
    assert "cleanup.policy=compact" in running.cli("topics", "describe", "later").stdout
    assert min(epochs(running, "orders")) > max(before)
    assert "forgotten" not in running.cli("topics", "list").stdout
    produce(running, "orders", range(600, 900))
    assert read(running, "orders", 900) == in_order(900)


def test_everything_is_there_after_a_rebuild_without_any_back_up(running: RunningCluster, tmp_path: Path) -> None:
    create(running, "orders", min_insync_replicas="2", cleanup_policy="compact,delete")
    produce(running, "orders", range(300))
    commit(running, "orders", 40)
    running.down()
    lose_etcd(running)
    refused = running.cli("up")
    assert refused.returncode == 1
    assert "barnabas rebuild" in refused.stderr

    said = running.cli("rebuild")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "nothing is written" in said.stdout
    assert not running.directory.etcd_path.exists()
    # As from several hosts: a file for each logstore.
    files = []
    for logstore in range(LOGSTORES):
        reported = _inspect(running.directory.logstore_path(logstore))
        assert json.loads(reported)["node_id"] == logstore
        path = tmp_path / f"node-{logstore}.json"
        path.write_text(reported)
        files += ["--from", str(path)]
    one_is_missing = running.cli("rebuild", "--write", *files[:4])
    assert one_is_missing.returncode == 1
    assert "logstore 2 belongs to the cluster and was not inspected" in one_is_missing.stdout
    done = running.cli("rebuild", "--write", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    again = running.cli("rebuild", "--write", *files)
    assert again.returncode == 1
    assert "--replace" in again.stderr
    running.up()

    assert read(running, "orders", 300) == in_order(300)
    assert committed(running, "orders") == 40
    described = running.cli("topics", "describe", "orders").stdout
    assert "cleanup.policy=compact,delete" in described
    assert "min.insync.replicas=2" in described
    produce(running, "orders", range(300, 600))
    assert read(running, "orders", 600) == in_order(600)


def _inspect(log_dir: Path) -> str:
    command = [sys.executable, "-m", "barnabas_cli", "inspect", str(log_dir)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- an etcd that others use too, and what is refused there ---


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path)
    process.start()
    yield process
    process.kill()


def put(etcd: EtcdProcess, key: str, value: bytes, *, leased: bool = False) -> None:
    async def write() -> None:
        client = EtcdClient([etcd.endpoint], monotonic_ms)
        lease = await client.grant(60_000)
        await client.txn(Txn((), (Put(key, value, lease.lease_id if leased else 0),)))
        await client.close()

    asyncio.run(write())


def keys_of(etcd: EtcdProcess, prefix: str) -> dict[str, bytes]:
    async def read_all() -> dict[str, bytes]:
        client = EtcdClient([etcd.endpoint], monotonic_ms)
        snapshot = await client.get_prefix(prefix)
        await client.close()
        return {each.key: each.value for each in snapshot.key_values}

    return asyncio.run(read_all())


INSPECTION = {
    "cluster_id": "cluster-a",
    "node_id": 1,
    "log_dirs": [
        {
            "path": "/data",
            "directory_id": "x",
            "shut_down_cleanly": True,
            "partitions": [
                {
                    "topic": "orders",
                    "topic_id": bytes(range(16)).hex(),
                    "partition": 0,
                    "log_start_offset": 0,
                    "log_end_offset": 10,
                    "latest_epoch": 4,
                }
            ],
        }
    ],
    "version": 1,
}


def rebuild(tmp_path: Path, etcd: EtcdProcess, *arguments: str, prefix: str = "/a/") -> tuple[int, str]:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(INSPECTION))
    command = [sys.executable, "-m", "barnabas_cli", "rebuild", "--from", str(path), "--etcd", etcd.endpoint]
    command += ["--etcd-prefix", prefix, "--write", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.returncode, done.stdout + done.stderr


def test_only_the_keys_below_the_prefix_are_touched(tmp_path: Path, etcd: EtcdProcess) -> None:
    put(etcd, "/a", b"somebody else's")
    put(etcd, "/aa/x", b"somebody else's")
    put(etcd, "/a/old", b"of a cluster that was here")
    code, said = rebuild(tmp_path, etcd)
    assert code == 1
    assert "--replace" in said
    assert keys_of(etcd, "/a/") == {"/a/old": b"of a cluster that was here"}
    code, said = rebuild(tmp_path, etcd, "--replace")
    assert code == 0, said
    assert keys_of(etcd, "/aa/") == {"/aa/x": b"somebody else's"}
    written = keys_of(etcd, "/a/")
    assert "/a/old" not in written
    assert {"/a/cluster", "/a/topics/orders", "/a/version"} <= set(written)


def test_nothing_is_written_while_somebody_is_registered(tmp_path: Path, etcd: EtcdProcess) -> None:
    put(etcd, "/a/gateways/g-1", b"{}", leased=True)
    code, said = rebuild(tmp_path, etcd, "--replace")
    assert code == 1
    assert "/a/gateways/g-1" in said
    assert list(keys_of(etcd, "/a/")) == ["/a/gateways/g-1"]


def test_a_restore_that_broke_off_is_begun_again(tmp_path: Path, etcd: EtcdProcess) -> None:
    keys = Keys("/a/")
    put(etcd, keys.version, encode_record(VersionRecord(FORMAT, READERS_MIN, "0.2.0", restoring=True)))
    put(etcd, keys.topic("half"), b"{}")
    code, said = rebuild(tmp_path, etcd, "--replace")
    assert code == 0, said
    assert keys.topic("half") not in keys_of(etcd, "/a/")


def test_a_cluster_of_a_newer_version_is_left_alone(tmp_path: Path, etcd: EtcdProcess) -> None:
    keys = Keys("/a/")
    put(etcd, keys.version, encode_record(VersionRecord(FORMAT + 1, FORMAT + 1, "0.9.0")))
    code, said = rebuild(tmp_path, etcd, "--replace")
    assert code == 1
    assert "run 0.9.0 or newer" in said


def test_a_service_does_not_start_on_a_newer_cluster(tmp_path: Path, etcd: EtcdProcess) -> None:
    put(etcd, "/barnabas/version", encode_record(VersionRecord(FORMAT + 1, FORMAT + 1, "0.9.0")))
    own = {
        "controller": ["--set", "controller.id=c", "--set", "listeners=127.0.0.1:0"],
        "purgatory": ["--set", "pod.id=p", "--set", "listeners=127.0.0.1:0"],
    }
    for service, arguments in own.items():
        command = [sys.executable, "-m", f"barnabas_{service}", *arguments, "--set", f"etcd.endpoints={etcd.endpoint}"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(
            f"barnabas-{service}: the cluster's state in etcd is of Barnabas"
        )
