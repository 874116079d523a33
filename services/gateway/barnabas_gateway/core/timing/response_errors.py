"""The errors in a response, for ErrorsPerSec: its own, and those of its elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Buffer, Steps
from barnabas.wire.schema import shape_of

_ERROR_FIRST: Final[dict[int, int]] = {
    ApiKey.JOIN_GROUP: 2,
    ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 1,
    ApiKey.SYNC_GROUP: 1,
}
"""Bodies that begin with their error, and the version from which on the throttle time precedes it."""


_REMEMBERED_BYTES_MAX: Final = 1024
"""Of a body whose codes are remembered."""


def error_codes(response: object) -> list[int]:
    """Return all codes except NONE."""
    return list(_codes(response))


def error_codes_in_steps(response: Any, codes: list[int]) -> Steps[None]:
    """Add them to `codes`, one message per step."""
    yield 1
    has_code, names = _fields(response.__class__)
    if has_code and (code := response.error_code):
        codes.append(code)
    for name in names:
        value = getattr(response, name)
        for each in value if isinstance(value, list) else (value,):
            if each is not None:
                yield from error_codes_in_steps(each, codes)


def error_codes_of_body(api_key: int, version: int, body: Buffer) -> list[int]:
    """Return the codes of a response that another service has encoded."""
    with_throttle = _ERROR_FIRST.get(api_key)
    if with_throttle is not None:
        position = 4 if version >= with_throttle else 0
        code = int.from_bytes(body[position : position + 2], "big", signed=True)
        return [code] if code else []
    if len(body) <= _REMEMBERED_BYTES_MAX:
        return _codes_of_short_body(api_key, version, bytes(body))
    return error_codes(decode_response_body(api_key, version, memoryview(body)))


@lru_cache(maxsize=1024)  # the answers to the commits of one consumer are the same bytes again and again
def _codes_of_short_body(api_key: int, version: int, body: bytes) -> list[int]:
    return error_codes(decode_response_body(api_key, version, memoryview(body)))


def error_name(code: int) -> str:
    """Return Kafka's name; for a code that Kafka does not have, what Kafka uses for it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR.name


@cache  # by class: there are about a hundred
def _fields(message: type[Any]) -> tuple[bool, tuple[str, ...]]:
    """Return whether it has its own code, and its fields that contain such messages."""
    names = []
    for field in dataclasses.fields(message):
        kind: Any = shape_of(field).kind
        if not isinstance(kind, str) and any(_fields(kind)):
            names.append(field.name)
    return any(field.name == "error_code" for field in dataclasses.fields(message)), tuple(names)


def _codes(message: Any) -> Iterator[int]:
    has_code, names = _fields(message.__class__)
    if has_code and message.error_code:
        yield message.error_code
    for name in names:
        value = getattr(message, name)
        for each in value if isinstance(value, list) else (value,):
            if each is not None:
                yield from _codes(each)
