"""A response frame of every API key and version, behind four bytes that name them.

Raises MalformedFrame or UnsupportedVersion and nothing else; what decodes, encodes to bytes that decode to the same.
"""

from __future__ import annotations

from random import Random
from struct import Struct

from barnabas.wire.codec import UnsupportedVersion, decode_response, encode_response
from barnabas.wire.primitives import MalformedFrame
from tests.fuzz.structure import VERSIONS, random_response
from tests.fuzz.target import Target
from tests.unit.wire.recorded import exchanges

_KEY_AND_VERSION = Struct(">hh")
_SIZE_BYTES = 4
_RECORDED = [exchange for exchange in exchanges() if exchange.response]


def check(data: bytes) -> None:
    if len(data) < _KEY_AND_VERSION.size:
        return
    api_key, version = _KEY_AND_VERSION.unpack_from(data)
    try:
        correlation_id, message = decode_response(api_key, version, memoryview(data)[_KEY_AND_VERSION.size :])
    except (MalformedFrame, UnsupportedVersion):
        return
    once = b"".join(encode_response(message, version, correlation_id))
    _, again = decode_response(api_key, version, memoryview(once)[_SIZE_BYTES:])
    assert b"".join(encode_response(again, version, correlation_id)) == once


def build(random: Random) -> bytes:
    """As often as not one that Kafka sent."""
    if random.random() < 0.5:
        exchange = random.choice(_RECORDED)
        return _KEY_AND_VERSION.pack(exchange.api_key, exchange.version) + exchange.response
    key, version = random.choice(VERSIONS)
    frame = b"".join(encode_response(random_response(random, key, version), version, random.randrange(1 << 31)))
    return _KEY_AND_VERSION.pack(key, version) + frame[_SIZE_BYTES:]


TARGET = Target("responses", check, build)
