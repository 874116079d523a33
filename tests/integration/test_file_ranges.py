"""Fetched records by ranges of files, with real processes: what clients get, and what becomes of a slow one."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.record_batch import crc_is_valid, iterate_headers
from barnabas_cli.local.processes import session_members
from tests.integration.retried_calls import create_topic, retried
from tests.integration.running_cluster import RunningCluster
from tests.integration.test_metrics import total, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.deep]

RECORDS = 800
RECORD_BYTES = 20_000
FETCH_VERSION = 11
ANSWER_BYTES = 12_000_000
"""More than the kernel keeps for a client that does not read."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    home = tmp_path_factory.mktemp("lanes")
    home.chmod(0o700)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BARNABAS_LANE", "on")
        environment.setenv("BARNABAS_LANE_DIRECTORY", str(home))
        with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
            yield running


def values() -> list[bytes]:
    random = Random(4)
    return [random.randbytes(RECORD_BYTES) for _ in range(RECORDS)]


def fill(cluster: RunningCluster, topic: str, partitions: int = 1, **config: str) -> None:
    """Write `values`, in batches of some 100 KB, in turn to each partition."""
    create_topic(cluster.bootstrap, NewTopic(topic, partitions, 1, config=config))
    settings = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 50, "batch.size": 100_000, "log_level": 2}
    producer = Producer(settings)
    for number, value in enumerate(values()):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(60) == 0


def consume(cluster: RunningCluster, topic: str, partitions: int = 1) -> list[bytes]:
    """Read all from the beginning; librdkafka looks at the CRC of each batch."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "check.crcs": True, "log_level": 2})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    found = []
    while len(found) < RECORDS:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    return found


def logs(cluster: RunningCluster, topic: str) -> list[Path]:
    return sorted(cluster.directory.path.rglob(f"{topic}-*/*.log"))


def processors(cluster: RunningCluster) -> list[int]:
    (identity,) = (
        cluster.local.identity(service) for service in cluster.local.services if service.name.startswith("gateway")
    )
    assert identity is not None
    return [pid for pid in session_members(identity) if pid != identity.pid]


class SlowClient:
    """Asks for records of one partition, and does not read them for now."""

    def __init__(self, cluster: RunningCluster, topic: str) -> None:
        host, _, port = cluster.bootstrap.rpartition(":")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 10_000)
        self._socket.settimeout(30)
        self._socket.connect((host, int(port)))
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=ANSWER_BYTES)
        request = FetchRequest(max_wait_ms=100, max_bytes=ANSWER_BYTES, topics=[FetchTopic(topic, b"", [partition])])
        self._socket.sendall(b"".join(encode_request(request, FETCH_VERSION, 1, "slow")))
        self._head = self._receive(4)

    def _receive(self, byte_count: int) -> bytes:
        received = b""
        while len(received) < byte_count:
            part = self._socket.recv(byte_count - len(received))
            if not part:
                break
            received += part
        return received

    def read(self) -> memoryview | None:
        """Return the records; None if the connection ended before them."""
        size = int.from_bytes(self._head, "big")
        frame = self._receive(size)
        self._socket.close()
        if len(frame) < size:
            return None
        _, response = decode_response(ApiKey.FETCH, FETCH_VERSION, memoryview(frame))
        assert isinstance(response, FetchResponse)
        (partition,) = response.responses[0].partitions
        assert partition.error_code == ErrorCode.NONE
        return memoryview(partition.records or b"")


def check_records(records: memoryview | None) -> None:
    assert records is not None
    assert len(records) == ANSWER_BYTES
    positions = [position for position, _ in iterate_headers(records)]
    assert len(positions) > 5
    assert all(crc_is_valid(records, position) for position in positions)
    assert values()[0] in bytes(records[: 2 * RECORD_BYTES])


def test_a_consumer_that_checks_every_batch_gets_what_was_written(cluster: RunningCluster) -> None:
    fill(cluster, "read")
    assert consume(cluster, "read") == values()
    cluster.stop("logstore-0")
    cluster.up()
    assert consume(cluster, "read") == values()
    for path in logs(cluster, "read"):
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert consume(cluster, "read") == values()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_gateway_sends_records_without_reading_them(cluster: RunningCluster, tmp_path: Path) -> None:
    fill(cluster, "traced")
    consume(cluster, "traced")
    summary = tmp_path / "calls"
    attached = [argument for pid in processors(cluster) for argument in ("-p", str(pid))]
    log = tmp_path / "strace"
    with log.open("wb") as output:
        tracer = subprocess.Popen(
            ["strace", "-f", "-o", str(summary), "-e", "trace=sendfile,read,pread64,preadv,preadv2,readv", *attached],
            stderr=output,
        )
    wait_until(lambda: tracer.poll() is not None or "attached" in log.read_text())
    if tracer.poll() is not None:
        pytest.skip("strace may not attach here")
    try:
        assert consume(cluster, "traced") == values()
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(30)
    lines = summary.read_text().splitlines()
    sent = sum(int(line.rpartition("= ")[2]) for line in lines if "sendfile(" in line and line[-1].isdigit())
    assert sent > 0.9 * RECORDS * RECORD_BYTES
    read = [int(line.rpartition("= ")[2]) for line in lines if "sendfile" not in line and line[-1].isdigit()]
    assert max(read, default=0) < RECORD_BYTES


def test_a_killed_logstore_takes_nothing_from_who_is_being_sent_records(cluster: RunningCluster) -> None:
    fill(cluster, "outlived")
    client = SlowClient(cluster, "outlived")
    cluster.kill("logstore-0")
    check_records(client.read())
    cluster.up()
    assert consume(cluster, "outlived") == values()


def test_segments_are_deleted_under_a_slow_client_and_freed_after_it(cluster: RunningCluster) -> None:
    fill(cluster, "deleted", **{"segment.bytes": "1048576", "file.delete.delay.ms": "0"})
    first = logs(cluster, "deleted")[0]
    client = SlowClient(cluster, "deleted")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partition = TopicPartition("deleted", 0, RECORDS - 1)
    retried(lambda: admin.delete_records([partition])[partition].result())
    wait_until(lambda: not first.exists())
    records = client.read()
    assert records is not None
    assert all(crc_is_valid(records, position) for position, _ in iterate_headers(records))
    wait_until(lambda: not deleted_files_of(processors(cluster)))


def deleted_files_of(pids: list[int]) -> list[str]:
    found = []
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(descriptor)
            if ".log" in target and "(deleted)" in target:
                found.append(target)
    return found


def test_what_is_cut_under_a_slow_client_ends_its_connection(cluster: RunningCluster) -> None:
    fill(cluster, "cut")
    client = SlowClient(cluster, "cut")
    (path,) = logs(cluster, "cut")
    os.truncate(path, ANSWER_BYTES // 2)
    assert client.read() is None


def test_a_gateway_without_descriptors_serves_by_grpc(cluster: RunningCluster) -> None:
    partitions = 40
    fill(cluster, "many", partitions)
    lost = total(cluster, "barnabas_streams_lanes_lost_total", stream="Read")
    for pid in processors(cluster):
        count = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (count + 8, 4096))
    found = consume(cluster, "many", partitions)
    assert sorted(found) == sorted(values())
    for pid in processors(cluster):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, 4096))
    wait_until(lambda: total(cluster, "barnabas_streams_lanes_lost_total", stream="Read") > lost)
