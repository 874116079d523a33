"""The requests that are read before a client has authenticated: frames, headers, ApiVersions, SaslHandshake,
SaslAuthenticate. `requests` has those of all keys.

Raises MalformedFrame or UnsupportedVersion and nothing else; what decodes, encodes to bytes that decode to the same.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import UnsupportedVersion, decode_request, encode_request
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.headers import decode_request_header
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.primitives import MalformedFrame
from tests.fuzz.target import Target

_FRAME_BYTES_MAX: Final = 16 << 10
_FIRST: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_REQUESTS: Final[tuple[tuple[Any, int], ...]] = (
    (ApiVersionsRequest("librdkafka", "2.16.0"), 4),
    (SaslHandshakeRequest("SCRAM-SHA-256"), 1),
    (SaslAuthenticateRequest(b"n,,n=alice,r=nonce"), 2),
)


def check(data: bytes) -> None:
    try:
        for frame in FrameSplitter(_FRAME_BYTES_MAX).feed(data):
            header, position = decode_request_header(frame)
            if header.api_key in _FIRST:
                message = decode_request(header.api_key, header.api_version, frame, position)
                once = b"".join(encode_request(message, header.api_version, 1, "c"))
                again_header, position = decode_request_header(memoryview(once)[4:])
                again = decode_request(header.api_key, again_header.api_version, memoryview(once)[4:], position)
                assert b"".join(encode_request(again, header.api_version, 1, "c")) == once
    except (MalformedFrame, UnsupportedVersion):
        pass


def build(random: Random) -> bytes:
    frames = b""
    for _ in range(random.randint(1, 3)):
        request, version_max = random.choice(_REQUESTS)
        frames += b"".join(encode_request(request, random.randint(0, version_max), random.randrange(99), "client"))
    return frames


TARGET = Target("first_requests", check, build, input_bytes_max=1024)
