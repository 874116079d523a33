"""Hostile and broken clients against real processes: each loses only its own connection."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, needs_etcd, pytest.mark.deep]

PROCESSORS = None
TOPIC = "bad-input"
IDLE_CONNECTIONS = 2_000
MEBIBYTE = 1 << 20


class RawClient:
    """A client that sends given bytes."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        # The gateway may have closed the connection by now: `is_closed` looks at that.
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def is_closed(self) -> bool:
        """Waits until the gateway has said something, or closed."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def ask(self, request: Request, api_key: ApiKey, version: int) -> Response:
        self.send(b"".join(encode_request(request, version, 1, "raw")))
        size = int.from_bytes(self._receive(4), "big")
        return decode_response(api_key, version, memoryview(self._receive(size)))[1]

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            part = self.socket.recv(size - len(received))
            assert part, "closed instead of an answer"
            received += part
        return received


@pytest.fixture
def good(cluster: RunningCluster) -> Iterator[GoodClient]:
    """Another client, which produces before and after, and reads all of it back."""
    client = GoodClient(cluster.bootstrap)
    client.produce()
    yield client
    client.produce()
    client.read_back()


class GoodClient:
    acknowledged: list[bytes] = []  # noqa: RUF012 - all tests of the module share one topic

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 20_000})

    def produce(self) -> None:
        value = b"%d" % len(self.acknowledged)
        errors: list[object] = []
        self._producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: errors.append(error))
        assert self._producer.flush(30) == 0
        assert errors == [None]
        self.acknowledged.append(value)

    def read_back(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "g", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[bytes | None] = []
        while len(values) < len(self.acknowledged):
            message = consumer.poll(10)
            assert message is not None, "records are missing"
            assert message.error() is None
            values.append(message.value())
        consumer.close()
        assert values == self.acknowledged


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="length -1"),
        pytest.param(struct.pack(">i", 0x7FFFFFFF), id="length 2^31-1"),
        pytest.param(struct.pack(">i", 104_857_601), id="length over socket.request.max.bytes"),
        pytest.param(struct.pack(">ihhihi", 14, ApiKey.METADATA, 1, 7, -1, 0x7FFFFFFF), id="count 2^31-1"),
        pytest.param(struct.pack(">ihhih", 10, 999, 0, 7, -1), id="unknown API key"),
        pytest.param(struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 7, -1), id="unknown version"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
        pytest.param(bytes.fromhex("16030100c8010000c40303"), id="TLS"),
    ],
)
def test_bad_frames_close_their_connection(cluster: RunningCluster, good: GoodClient, data: bytes) -> None:
    with RawClient(cluster.bootstrap) as bad:
        bad.send(data)
        assert bad.is_closed()


def test_the_log_names_the_request(cluster: RunningCluster) -> None:
    with RawClient(cluster.bootstrap) as bad:
        bad.send(struct.pack(">ihhih", 10, ApiKey.METADATA, 98, 4711, -1))
        assert bad.is_closed()
    log = cluster.directory.log_path("gateway").read_text()
    line = next(line for line in log.splitlines() if "correlation_id=4711" in line)
    for named in ("api_key", "api_version", "correlation_id", "connection_id", "listener", "principal"):
        assert named in line


def test_half_a_frame_and_a_hang_up(cluster: RunningCluster, good: GoodClient) -> None:
    with RawClient(cluster.bootstrap) as bad:
        bad.send(struct.pack(">i", 1000) + bytes(300))


def test_one_byte_at_a_time(cluster: RunningCluster, good: GoodClient) -> None:
    with RawClient(cluster.bootstrap) as slow:
        slow.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = b"".join(encode_request(ApiVersionsRequest("raw", "1"), 3, 7, "raw"))
        for byte in frame[:-1]:
            slow.send(bytes([byte]))
        slow.send(frame[-1:])
        assert not slow.is_closed()


def test_a_client_that_never_reads_its_answers(cluster: RunningCluster, good: GoodClient) -> None:
    """It asks for far more than it takes; what is kept for it is bounded, and so is what is read of it."""
    before = gateway_bytes(cluster)
    with RawClient(cluster.bootstrap) as deaf:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ask = b"".join(encode_request(MetadataRequest(None), 1, 1, "raw"))
        deaf.socket.settimeout(3)
        with contextlib.suppress(TimeoutError):
            for _ in range(2_000):
                deaf.socket.sendall(ask * 1_000)
            pytest.fail("the gateway read everything that was sent")
        assert gateway_bytes(cluster) - before < 64 * MEBIBYTE
        good.produce()


def test_two_thousand_idle_connections(cluster: RunningCluster, good: GoodClient) -> None:
    before = gateway_bytes(cluster)
    with contextlib.ExitStack() as stack:
        for index in range(IDLE_CONNECTIONS):
            idle = stack.enter_context(RawClient(cluster.bootstrap))
            if index % 2:
                idle.send(struct.pack(">i", 100) + b"half")
        good.produce()
        assert gateway_bytes(cluster) - before < 64 * MEBIBYTE


def test_many_half_frames_of_the_largest_size(cluster: RunningCluster, good: GoodClient) -> None:
    """A size is a promise: memory follows what is sent."""
    before = gateway_bytes(cluster)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(RawClient(cluster.bootstrap)).send(struct.pack(">i", 104_857_600) + bytes(1000))
        good.produce()
        assert gateway_bytes(cluster) - before < 64 * MEBIBYTE


@pytest.mark.parametrize(
    ("position", "value"),
    [pytest.param(17, 0xFF, id="CRC"), pytest.param(8, 0x7F, id="size"), pytest.param(16, 9, id="magic")],
)
def test_bad_batches_are_errors_of_their_partition(
    cluster: RunningCluster, good: GoodClient, position: int, value: int
) -> None:
    with RawClient(cluster.bootstrap) as bad:
        batch = bytearray(stored_batch(bad))
        batch[position] ^= value
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, bytes(batch))])]
        answer = bad.ask(ProduceRequest(None, -1, 10_000, data), ApiKey.PRODUCE, 9)
        code = answer.responses[0].partition_responses[0].error_code  # type: ignore[union-attr]
        assert code in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ErrorCode.MESSAGE_TOO_LARGE,
        )


# --- processors ---


def test_a_processor_that_dies_is_replaced(cluster: RunningCluster, good: GoodClient) -> None:
    before = processors(cluster)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(processors(cluster)) == len(before) and not set(before) & set(processors(cluster)))


def test_the_number_of_processors_changes_at_run_time(cluster: RunningCluster, good: GoodClient) -> None:
    config = cluster.directory.config_path("gateway")
    known = config.read_text()
    try:
        for count in (5, 1):
            config.write_text(known + f"num.network.threads={count}\n")
            os.kill(cluster.pids["gateway"], signal.SIGHUP)
            wait_until(lambda count=count: len(processors(cluster)) == count)  # type: ignore[misc]
            good.produce()
        config.write_text("nonsense=1\n")
        os.kill(cluster.pids["gateway"], signal.SIGHUP)
        good.produce()
        assert len(processors(cluster)) == 1
    finally:
        config.write_text(known)
        os.kill(cluster.pids["gateway"], signal.SIGHUP)
    wait_until(lambda: len(processors(cluster)) == 3)


def processors(cluster: RunningCluster) -> list[int]:
    acceptor = cluster.pids["gateway"]
    return [int(pid) for pid in Path(f"/proc/{acceptor}/task/{acceptor}/children").read_text().split()]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Fails by the test's own timeout, with what it waits for in the traceback."""
    while not is_so():
        time.sleep(0.05)


def stored_batch(client: RawClient) -> bytes:
    """A batch that some producer wrote, to be spoilt."""
    asked = [FetchTopic(TOPIC, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1)])]
    answer = client.ask(FetchRequest(max_wait_ms=1000, min_bytes=1, topics=asked), ApiKey.FETCH, 11)
    records = answer.responses[0].partitions[0].records  # type: ignore[union-attr]
    assert records
    return bytes(records)


def gateway_bytes(cluster: RunningCluster) -> int:
    """Resident memory of the gateway's processes together."""
    return sum(_resident_bytes(pid) for pid in (cluster.pids["gateway"], *processors(cluster)))


def _resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
