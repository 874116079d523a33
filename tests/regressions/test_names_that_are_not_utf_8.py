"""A client id that is not UTF-8 closed the connection, and so did any other name in a request.

Kafka reads such bytes as U+FFFD, so that a client id in Latin-1 is served, and a topic of that name is invalid.
"""

from __future__ import annotations

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import metadata
from barnabas.wire.record_batch import Record, build_batch, decode_records
from tests.unit.gateway.world import World, topic


def metadata_frame(client_id: bytes, name: bytes, version: int) -> bytes:
    header = int(ApiKey.METADATA).to_bytes(2, "big") + version.to_bytes(2, "big") + (1).to_bytes(4, "big")
    header += len(client_id).to_bytes(2, "big") + client_id
    if version >= 9:
        tags, topics = b"\0", b"\2" + (len(name) + 1).to_bytes(1, "big") + name + b"\0"
        body = tags + topics + b"\0\0\0\0"
    else:
        body = (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


@pytest.mark.parametrize("version", [1, 9])
@pytest.mark.parametrize(
    ("name", "error"), [(b"t", ErrorCode.NONE), (b"gr\xf6\xdfe", ErrorCode.INVALID_TOPIC_EXCEPTION)]
)
def test_a_client_id_and_a_topic_in_latin_1_are_read(version: int, name: bytes, error: ErrorCode) -> None:
    world = World(topic())
    client = world.client()
    client.frame(metadata.MetadataRequest([]), ApiKey.METADATA, version)  # the client expects an answer to it
    frame = metadata_frame(b"caf\xe9", name, version)
    client.send(frame)
    assert not client.is_closed
    (answer,) = client.answers
    assert [each.error_code for each in answer.topics] == [error]


def test_a_header_of_a_record_is_read() -> None:
    name = "caf\xe9".encode()
    batch = build_batch([Record(b"k", b"v", 0, (("caf\xe9", b"x"),))])
    assert batch.count(name) == 1
    (record,) = decode_records(bytes(batch).replace(name, b"caf\xff\xfe"))
    assert record.headers == (("caf\ufffd\ufffd", b"x"),)
