"""Request headers of any key, known or not. Raises MalformedFrame and nothing else; a header read encodes to itself."""

from __future__ import annotations

from random import Random

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.headers import decode_request_header, decode_response_header, encode_request_header
from barnabas.wire.primitives import MalformedFrame
from tests.fuzz.target import Target


def check(data: bytes) -> None:
    frame = memoryview(data)
    try:
        header, position = decode_request_header(frame)
    except MalformedFrame:
        return
    assert 8 <= position <= len(data)
    encoded = encode_request_header(header.api_key, header.api_version, header.correlation_id, header.client_id)
    assert decode_request_header(memoryview(encoded)) == (header, len(encoded))
    try:
        _, position = decode_response_header(header.api_key, header.api_version, frame[4:])
    except MalformedFrame:
        return
    assert position <= len(data) - 4


def build(random: Random) -> bytes:
    key = random.choice([*ApiKey, 93, -1, 32767])
    client_id = random.choice((None, "", "client", "é" * 50))
    header = encode_request_header(int(key), random.randint(0, 14), random.randrange(1 << 31), client_id)
    tags = bytes((2, 0, 1, 65, 7, 2, 66, 67))
    return header[:-1] + tags if random.random() < 0.3 else header + random.randbytes(4)


TARGET = Target("headers", check, build, input_bytes_max=512)
