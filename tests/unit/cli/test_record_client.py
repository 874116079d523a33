from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from barnabas.runtime.compression import compress
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, Compression, Record, build_batch
from barnabas_cli.record_client import KafkaError, RecordClient, decode_batches


def compressed(compression: Compression, payload: bytes) -> bytes:
    """A batch of one codec, made of an uncompressed one's parts; its CRC is of no interest to the client."""
    batch = bytearray(build_batch([Record(b"k", b"v" * 500, 5), Record(None, b"w", 6)], base_offset=10))
    body = payload or compress(compression, batch[HEADER_BYTES:], None)
    batch[HEADER_BYTES:] = body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[22] |= compression
    return bytes(batch)


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_every_codec_are_read(compression: Compression) -> None:
    records = list(decode_batches(compressed(compression, b"")))
    assert [(record.offset, record.key, record.value) for record in records] == [
        (10, b"k", b"v" * 500),
        (11, None, b"w"),
    ]


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_rot_is_refused(compression: int) -> None:
    with pytest.raises(MalformedFrame):
        list(decode_batches(compressed(Compression(compression), b"\xff\xfe\xfd rot")))


def test_decode_batches_of_one_fetch() -> None:
    batches = [
        build_batch([Record(b"k", b"v", 5), Record(None, None, 6)], base_offset=10),
        build_batch([Record(None, b"marker", 7)], base_offset=12, is_control=True, is_transactional=True),
        build_batch([Record(None, b"last", 8)], base_offset=13),
    ]
    records = list(decode_batches(b"".join(batches) + batches[0][:70]))
    assert [(record.offset, record.key, record.value) for record in records] == [
        (10, b"k", b"v"),
        (11, None, None),
        (13, None, b"last"),
    ]


def answer_once(answer: Callable[[bytes], bytes]) -> int:
    """The port of a server that reads one request and sends one answer."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with server, connection:
            connection.sendall(answer(connection.recv(65536)))

    threading.Thread(target=serve, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "is this a Kafka port"),
        (b"", "closed the connection"),
        (b"\0\0\0\x05\0\0\0\x01", "closed the connection"),
        (b"\0\0\0\x05\0\0\0\x01\0", "can't be read"),
        (b"\0\0\0\x02\0\0", "can't be read"),
    ],
)
def test_answers_that_are_none(answer: bytes, message: str) -> None:
    port = answer_once(lambda _: answer)
    with RecordClient("127.0.0.1", port, timeout_seconds=10) as client, pytest.raises(KafkaError, match=message):
        client.metadata()


def test_an_answer_to_another_request() -> None:
    port = answer_once(lambda _: b"\0\0\0\x14\0\0\0\x63" + bytes(16))
    with RecordClient("127.0.0.1", port, timeout_seconds=10) as client, pytest.raises(KafkaError):
        client.metadata()


def test_a_closed_port_is_refused() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with RecordClient("127.0.0.1", port, timeout_seconds=5) as client, pytest.raises(KafkaError, match="refused"):
        client.metadata()
