"""Request headers v0 to v2 and response headers v0 and v1.

Kafka's RequestHeader.json and ResponseHeader.json, with their two exceptions: `client_id` keeps its int16 length even
in the flexible header v2, and the ApiVersions response always has header v0, so that a client which does not yet know
the broker can read it (KIP-511).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from barnabas.wire.api_keys import NEVER, ApiKey
from barnabas.wire.primitives import MalformedFrame, nullable_string, read_nullable_string, read_uvarint, skip_tags

_FIXED_PART: Final = Struct(">hhi")
_FLEXIBLE_FROM: Final = {int(key): key.flexible_from for key in ApiKey}


@dataclass(slots=True)
class RequestHeader:
    api_key: int
    """As sent; may not be an `ApiKey`."""
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, api_version: int) -> int:
    """0, 1 or 2; for unknown keys v1 is assumed."""
    if api_version >= _FLEXIBLE_FROM.get(api_key, NEVER):
        return 2
    return 0 if api_key == ApiKey.CONTROLLED_SHUTDOWN and api_version == 0 else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """0 or 1."""
    return 1 if api_version >= _FLEXIBLE_FROM.get(api_key, NEVER) and api_key != ApiKey.API_VERSIONS else 0


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Return the header of a frame, and the position where the body starts.

    Raises MalformedFrame. An unknown key still returns a header, whose `client_id` is None if no string can be read, so
    that the log line can name the key.
    """
    if len(frame) < 8:
        raise MalformedFrame(f"a request header can't be in {len(frame)} bytes")
    api_key, api_version, correlation_id = _FIXED_PART.unpack_from(frame)
    flexible_from = _FLEXIBLE_FROM.get(api_key)
    if flexible_from is None:
        return _unknown_header(frame, api_key, api_version, correlation_id)
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and request_header_version(api_key, api_version) == 0:
        return RequestHeader(api_key, api_version, correlation_id, None), 8
    client_id, position = read_nullable_string(frame, 8)
    if api_version >= flexible_from:
        if position < len(frame) and not frame[position]:
            position += 1
        else:
            position = _skip_header_tags(frame, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a header without tagged fields."""
    version = request_header_version(api_key, api_version)
    fixed_part = _FIXED_PART.pack(api_key, api_version, correlation_id)
    if version == 0:
        return fixed_part
    return fixed_part + nullable_string(client_id) + (b"\0" if version == 2 else b"")


def decode_response_header(api_key: int, api_version: int, frame: memoryview) -> tuple[int, int]:
    """Return `(correlation id, position where the body starts)`. Raises MalformedFrame."""
    if len(frame) < 4:
        raise MalformedFrame(f"a response header can't be in {len(frame)} bytes")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    if response_header_version(api_key, api_version) == 0:
        return correlation_id, 4
    return correlation_id, _skip_header_tags(frame, 4)


def _skip_header_tags(frame: memoryview, position: int) -> int:
    try:
        count, position = read_uvarint(frame, position)
        return skip_tags(frame, position, count) if count else position
    except IndexError:
        raise MalformedFrame(f"{len(frame)} bytes end inside the tagged fields of a header") from None


def _unknown_header(
    frame: memoryview, api_key: int, api_version: int, correlation_id: int
) -> tuple[RequestHeader, int]:
    try:
        client_id, position = read_nullable_string(frame, 8)
    except MalformedFrame:
        client_id, position = None, 8
    return RequestHeader(api_key, api_version, correlation_id, client_id), position
