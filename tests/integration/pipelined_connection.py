"""A Kafka connection that does not wait for answers: requests go out one by one, answers come in order."""

from __future__ import annotations

import socket
from collections import deque

from barnabas.client.kafka_connection import connect
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.messages import Request, Response, api_key_of
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

PRODUCE_VERSION = 12
CLIENT_ID = "barnabas-tests"
_RECEIVE_BYTES = 1 << 16


class PipelinedConnection:
    """Non-blocking once it stands: `send` queues what the socket does not take, `receive` returns what has come."""

    def __init__(self, host: str, port: int) -> None:
        """Raises OSError."""
        self._socket = connect(host, port, 30.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._unanswered: deque[tuple[int, int]] = deque()
        self._unsent = bytearray()
        self._received = bytearray()
        self._correlation_id = 0

    @property
    def unanswered(self) -> int:
        return len(self._unanswered)

    @property
    def wants_to_send(self) -> bool:
        return bool(self._unsent)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Request, version: int) -> None:
        """Ask without waiting. Raises OSError when the peer is gone."""
        self._correlation_id += 1
        self._unanswered.append((api_key_of(type(request)), version))
        for buffer in encode_request(request, version, self._correlation_id, CLIENT_ID):
            self._unsent += buffer
        self.flush()

    def flush(self) -> None:
        """Send on what the socket did not take before."""
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass

    def receive(self) -> list[Response]:
        """The answers that have come, if any. Raises ConnectionResetError when the peer has closed."""
        try:
            while chunk := self._socket.recv(_RECEIVE_BYTES):
                self._received += chunk
            raise ConnectionResetError("the broker closed the connection")
        except BlockingIOError:
            pass
        return self._take_frames()

    def _take_frames(self) -> list[Response]:
        responses, position, received = [], 0, self._received
        while len(received) >= position + 4:
            end = position + 4 + int.from_bytes(received[position : position + 4], "big")
            if len(received) < end:
                break
            api_key, version = self._unanswered.popleft()
            _, response = decode_response(api_key, version, memoryview(bytes(received[position + 4 : end])))
            responses.append(response)
            position = end
        del received[:position]
        return responses


def produce_request(topic: str, partition: int, batch: bytes, acks: int, timeout_ms: int) -> ProduceRequest:
    """One batch to one partition."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, batch)])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=[data])


def produce_error(response: Response) -> int:
    """What became of the one batch."""
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code
