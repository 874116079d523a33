"""One connection sends the costliest requests of an API key while another produces one record after the other."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.costly.requests import Costly, costly_requests
from tests.unit.logstore.storage.support import batch

TOPIC: Final = "costly"
PARTITIONS: Final = 50
_ANSWER_SECONDS_MAX: Final = 60.0
_SETTLE_SECONDS: Final = 0.3
_PAUSE_SECONDS: Final = 0.002
"""Between two records of the other client: it is there to wait, not to keep a core busy."""


class Connection:
    """A client that waits for each answer."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frame: bytes) -> bytes:
        """The answer's frame without its size. Raises OSError where the broker closes the connection."""
        self.send(frame)
        return self.receive()

    def send(self, frame: bytes) -> None:
        """Send a request; its answer is read later, or never."""
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """The next answer's frame without its size."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            data = self._socket.recv(min(size - len(received), 1 << 20))
            if not data:
                raise ConnectionError("the broker has closed the connection")
            received += data
        return bytes(received)

    def close(self) -> None:
        self._socket.close()


def create_topic(bootstrap: str) -> None:
    """The topic that costly requests name, and that the other client produces to."""
    connection = Connection(bootstrap)
    request = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, -1)], 30_000)
    answer = connection.ask(b"".join(encode_request(request, 5, 1, "costly")))
    _, response = decode_response(ApiKey.CREATE_TOPICS, 5, memoryview(answer))
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), response
    connection.close()


@dataclass
class Waits:
    """Of a client that produces one record after the other, from when `begin` is called."""

    longest_ms: float = 0.0
    records: int = 0
    failures: list[str] = field(default_factory=list)


class OtherClient:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self.waits = Waits()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        self.waits = Waits()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _produce(self) -> None:
        connection = Connection(self._bootstrap)
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch(1))])
        frame = b"".join(encode_request(ProduceRequest(None, 1, 30_000, [data]), 9, 1, "other"))
        while not self._stopping.is_set():
            waits, began_s = self.waits, time.monotonic()
            _, response = decode_response(ApiKey.PRODUCE, 9, memoryview(connection.ask(frame)))
            waits.longest_ms = max(waits.longest_ms, (time.monotonic() - began_s) * 1000)
            waits.records += 1
            assert isinstance(response, ProduceResponse)
            error = response.responses[0].partition_responses[0].error_code
            if error:
                waits.failures.append(ErrorCode(error).name)
            time.sleep(_PAUSE_SECONDS)
        connection.close()


@dataclass(frozen=True)
class Outcome:
    """What came of the requests of one API key."""

    api_key: ApiKey
    label: str
    """Of the request by which the other client waited longest."""
    request_bytes: int
    longest_wait_ms: float
    answered: int
    closed: int
    """Requests that the broker refused by closing the connection."""
    failures: tuple[str, ...]


def measure(
    bootstrap: str, other: OtherClient, api_key: int, elements: int, times: int, *, only: Collection[str] | None = None
) -> Outcome:
    """Send each costly request of an API key so often, or those of them with `only` these labels, on one connection."""
    worst: tuple[float, str, int] = (0.0, "", 0)
    answered = closed = 0
    failures: list[str] = []
    connection: Connection | None = None
    for costly in costly_requests(elements, TOPIC, api_key, labels=only):
        frame = _frame(costly)
        other.begin()
        for _ in range(times):
            connection = connection or Connection(bootstrap)
            try:
                connection.ask(frame)
                answered += 1
            except OSError:
                connection.close()
                connection = None
                closed += 1
        time.sleep(_SETTLE_SECONDS)
        waits = other.waits
        failures += waits.failures
        worst = max(worst, (waits.longest_ms, costly.label, len(frame)))
    if connection is not None:
        connection.close()
    longest_ms, label, size = worst
    return Outcome(ApiKey(api_key), label, size, longest_ms, answered, closed, tuple(failures))


def _frame(costly: Costly) -> bytes:
    return b"".join(encode_request(costly.request, costly.version, 1, "costly"))
