"""A request frame, header and body, of every API key and version.

Raises MalformedFrame or UnsupportedVersion and nothing else; what decodes, encodes to bytes that decode to the same.
"""

from __future__ import annotations

from random import Random

from barnabas.wire.codec import UnsupportedVersion, decode_request, encode_request
from barnabas.wire.headers import decode_request_header
from barnabas.wire.primitives import MalformedFrame
from tests.fuzz.structure import VERSIONS, random_request
from tests.fuzz.target import Target
from tests.unit.wire.recorded import exchanges

_SIZE_BYTES = 4
_RECORDED = [exchange.request for exchange in exchanges()]


def check(data: bytes) -> None:
    frame = memoryview(data)
    try:
        header, position = decode_request_header(frame)
        message = decode_request(header.api_key, header.api_version, frame, position)
    except (MalformedFrame, UnsupportedVersion):
        return
    once = b"".join(encode_request(message, header.api_version, header.correlation_id, header.client_id))
    again_header, position = decode_request_header(memoryview(once)[_SIZE_BYTES:])
    assert again_header == header
    again = decode_request(header.api_key, header.api_version, memoryview(once)[_SIZE_BYTES:], position)
    assert b"".join(encode_request(again, header.api_version, header.correlation_id, header.client_id)) == once


def build(random: Random) -> bytes:
    """As often as not one that a real client sent."""
    if random.random() < 0.5:
        return random.choice(_RECORDED)
    key, version = random.choice(VERSIONS)
    request = random_request(random, key, version)
    return b"".join(encode_request(request, version, random.randrange(1 << 31), "client"))[_SIZE_BYTES:]


TARGET = Target("requests", check, build)
