"""The errors that an answer tells of, for ErrorsPerSec: its own, and those of all that is in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args, get_type_hints

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Buffer, Steps

_ERROR_FIRST = {ApiKey.JOIN_GROUP: 2, ApiKey.HEARTBEAT: 1, ApiKey.LEAVE_GROUP: 1, ApiKey.SYNC_GROUP: 1}
"""Bodies that begin with their error, and the version from which on the throttle time is before it."""


def error_codes(response: object) -> list[int]:
    """All codes but NONE."""
    return list(_codes(response))


def error_codes_in_steps(response: Any, codes: list[int]) -> Steps[None]:
    """Add the same to `codes`, a message a step."""
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
    """The same of a response that has been encoded by another."""
    with_throttle = _ERROR_FIRST.get(ApiKey(api_key))
    if with_throttle is None:
        return error_codes(decode_response_body(api_key, version, memoryview(body)))
    position = 4 if version >= with_throttle else 0
    code = int.from_bytes(body[position : position + 2], "big", signed=True)
    return [code] if code else []


def error_name(code: int) -> str:
    """Kafka's; of a code that it does not have, what Kafka makes of it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR.name


@cache  # By class: there are some hundred.
def _fields(message: type[Any]) -> tuple[bool, tuple[str, ...]]:
    """Whether it has a code of its own; its fields in which there are such messages."""
    names = []
    for name, hint in get_type_hints(message).items():
        within = [_fields(each) for each in _messages_within(hint)]
        if any(has_code or fields for has_code, fields in within):
            names.append(name)
    return any(field.name == "error_code" for field in dataclasses.fields(message)), tuple(names)


def _messages_within(hint: Any) -> list[Any]:
    """The classes of messages that an annotation names."""
    nested = [each for argument in get_args(hint) for each in _messages_within(argument)]
    return [hint, *nested] if dataclasses.is_dataclass(hint) else nested


def _codes(message: Any) -> Iterator[int]:
    has_code, names = _fields(message.__class__)
    if has_code and message.error_code:
        yield message.error_code
    for name in names:
        value = getattr(message, name)
        for each in value if isinstance(value, list) else (value,):
            if each is not None:
                yield from _codes(each)
